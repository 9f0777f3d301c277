"""The exceptions of gnnak, all subclasses of `GnnakError`, and helpers for messages."""

from numbers import Number


class GnnakError(Exception):
    """Base class of all errors that gnnak raises."""


class GraphError(GnnakError, ValueError):
    """A graph, or a tensor that describes a graph, is malformed."""


class SubgraphError(GnnakError, ValueError):
    """A `RootedSubgraphs` object is malformed, missing, or does not fit the graph."""


class SizeError(SubgraphError):
    """The rooted subgraphs would take more memory than is free or allowed."""


class CoverageError(GnnakError, ValueError):
    """SubgraphDrop cannot sample subgraphs with the given options or inputs."""


class OptionError(GnnakError, ValueError):
    """An option has an invalid value."""


class WidthError(GnnakError, ValueError):
    """A module or tensor has a wrong number of channels, shape, dtype or device."""


class EdgeAttrError(GnnakError, ValueError):
    """Edge attributes do not match the graph, or the GNN cannot use them."""


class FileFormatError(GnnakError, ValueError):
    """A file is missing, damaged, not in the expected format, or cannot be written."""


class MissingPackageError(GnnakError, ImportError):
    """A feature needs an optional package that is not installed."""


class CheckpointError(GnnakError):
    """A file is not a gnnak checkpoint, or is a checkpoint of another model."""


class TrainingError(GnnakError):
    """Training cannot start or continue; the message says why."""


class DamagedFileWarning(UserWarning):
    """A part of a file is damaged; it was skipped, and the rest was read."""


def counted(number: int, word: str) -> str:
    """Return a number and a noun in the singular or plural: "1 row", "2 classes"."""
    plural = "es" if word.endswith(("s", "ch")) else "s"
    return f"{number} {word}{plural * (number != 1)}"


def with_article(word: str) -> str:
    """Return a word with "a" or "an"."""
    return f"{'an' if word[0] in 'aeioAEIO' else 'a'} {word}"


def kind_of(value: object) -> str:
    """Return the type of a value with an article: "an int", "None"."""
    return "None" if value is None else with_article(type(value).__name__)


def reason_of(error: Exception) -> str:
    """Return the message of another library's error, as one line without a stop."""
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__


def described(value: object) -> str:
    """Return a short text for a wrong value: a number or text as is, else its type.

    >>> described("mse"), described(0.5), described(None)
    ("'mse'", '0.5', 'None')
    >>> described([1, 2]), described(dict)
    ('a list', 'the class dict')
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return repr(value) if isinstance(value, str | Number) else kind_of(value)

"""The exceptions that gnnak raises; all errors derive from `GnnakError`.

A message says in one or two sentences what is wrong, what was found, and what to do.
Errors about wrong inputs also derive from `ValueError`, as those of PyG do, so existing
`except ValueError` code catches them.
"""


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

"""The exceptions that gnnak raises; all derive from `GnnakError`.

Messages are one or two sentences: what is wrong, what was found, and what to do. Errors
about wrong inputs are also `ValueError`, so code that catches the errors of PyG works
unchanged.
"""


class GnnakError(Exception):
    """Base class of all errors that gnnak raises."""


class GraphError(GnnakError, ValueError):
    """A graph, or a tensor that describes one, is malformed."""


class SubgraphError(GnnakError, ValueError):
    """A `RootedSubgraphs` record violates one of its invariants."""


class CoverageError(GnnakError, ValueError):
    """SubgraphDrop cannot sample subgraphs with the given options or inputs."""


class OptionError(GnnakError, ValueError):
    """An option has an invalid value."""


class WidthError(GnnakError, ValueError):
    """A module or tensor does not have the number of channels that a layer needs."""


class EdgeAttrError(GnnakError, ValueError):
    """Edge attributes do not match the graph, or the GNN cannot use them."""


class FileFormatError(GnnakError, ValueError):
    """A file is missing, damaged, not in the expected format, or cannot be written."""


class MissingPackageError(GnnakError, ImportError):
    """An optional package is not installed."""


class CheckpointError(GnnakError):
    """A file is not a gnnak checkpoint, or is a checkpoint of another model."""


class TrainingError(GnnakError):
    """Training cannot start or continue."""

"""Everything gnnak raises on purpose: one small family under `GnnakError`.

Each message is one sentence or two: what is wrong, what was found, what is wanted,
what to do. All but `MissingPackageError` are also `ValueError`, so code that guards a
PyG call keeps working.
"""


class GnnakError(Exception):
    """The base of all errors that gnnak raises on purpose."""


class GraphError(GnnakError, ValueError):
    """A graph, or a tensor that describes one, is malformed."""


class SubgraphError(GnnakError, ValueError):
    """A record of rooted subgraphs breaks one of its invariants."""


class CoverageError(GnnakError, ValueError):
    """Subgraphs cannot be sampled as asked."""


class OptionError(GnnakError, ValueError):
    """An option has a value that it cannot take."""


class WidthError(GnnakError, ValueError):
    """A module or a tensor has another width than the layer around it needs."""


class EdgeAttrError(GnnakError, ValueError):
    """Edge attributes do not fit the graph or the GNN that should read them."""


class FileFormatError(GnnakError, ValueError):
    """A file is missing, truncated or not in the layout that its reader expects."""


class MissingPackageError(GnnakError, ImportError):
    """An optional package is not installed."""


class CheckpointError(GnnakError):
    """A file is no checkpoint of this program, or one of another model."""


class TrainingError(GnnakError):
    """Training cannot go on."""

"""Uplift any GNN from stars to rooted subgraphs (GNN-AK and GNN-AK+)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnnak import wl
    from gnnak.errors import GnnakError
    from gnnak.nn import GNNAK, PAPER, PUBLISHED, LayerOptions, uplift
    from gnnak.sampling import SubgraphDrop
    from gnnak.subgraphs import EgoNets, RandomWalks, RootedSubgraphs

__version__ = "0.1.0"

__all__ = [
    "GNNAK",
    "PAPER",
    "PUBLISHED",
    "EgoNets",
    "GnnakError",
    "LayerOptions",
    "RandomWalks",
    "RootedSubgraphs",
    "SubgraphDrop",
    "uplift",
    "wl",
]

_PACKAGES = (
    "datasets",
    "graphs",
    "models",
    "nn",
    "sampling",
    "subgraphs",
    "testing",
    "wl",
)
_HOMES = {
    "gnnak.errors": ("GnnakError",),
    "gnnak.nn": ("GNNAK", "PAPER", "PUBLISHED", "LayerOptions", "uplift"),
    "gnnak.sampling": ("SubgraphDrop",),
    "gnnak.subgraphs": ("EgoNets", "RandomWalks", "RootedSubgraphs"),
}


def __getattr__(name: str) -> Any:
    """Fetch a public name when it is first asked for.

    Importing PyTorch and PyG takes seconds; the program has to be there before, to
    answer to Ctrl-C.
    """
    if name in _PACKAGES:
        return import_module(f"gnnak.{name}")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'gnnak' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*__all__, "__version__"])

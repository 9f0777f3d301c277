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

# Submodules that are imported at their first use.
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
# Public names, by the module that they are imported from at their first use.
_HOMES = {
    "gnnak.errors": ("GnnakError",),
    "gnnak.nn": ("GNNAK", "PAPER", "PUBLISHED", "LayerOptions", "uplift"),
    "gnnak.sampling": ("SubgraphDrop",),
    "gnnak.subgraphs": ("EgoNets", "RandomWalks", "RootedSubgraphs"),
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use.

    Importing PyTorch and PyG takes seconds. Without them, the command line starts at
    once and can handle Ctrl-C while they are imported.
    """
    if name in _PACKAGES:
        return import_module(f"gnnak.{name}")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'gnnak' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted([*__all__, "__version__"])

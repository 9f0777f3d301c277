"""GNN-AK and GNN-AK+: run any GNN on the rooted subgraph of every node.

A message-passing GNN updates a node from its direct neighbours. GNN-AK "uplifts" the
GNN: it runs the GNN on a whole subgraph around the node, its rooted subgraph.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gnnak.backend import PLAIN, Backend, set_default_backend

if TYPE_CHECKING:
    from gnnak import wl
    from gnnak.errors import GnnakError
    from gnnak.loading import Budget, GraphLoader, RootLoader
    from gnnak.loop.infer import infer
    from gnnak.loop.training_step import TrainingStep
    from gnnak.nn import GNNAK, PAPER, PUBLISHED, LayerOptions, uplift
    from gnnak.sampling import SubgraphDrop
    from gnnak.subgraphs import (
        EgoNets,
        NodeDeletion,
        PageRankNeighbors,
        RandomWalks,
        RootedSubgraphs,
        WholeGraphs,
    )
    from gnnak.training.estimator import GNNAKClassifier, GNNAKRegressor
    from gnnak.training.own import train
    from gnnak.training.trained import from_pretrained, load

__version__ = "0.1.0"

__all__ = [
    "GNNAK",
    "PAPER",
    "PUBLISHED",
    "Budget",
    "EgoNets",
    "GNNAKClassifier",
    "GNNAKRegressor",
    "GnnakError",
    "GraphLoader",
    "LayerOptions",
    "NodeDeletion",
    "PageRankNeighbors",
    "RandomWalks",
    "RootLoader",
    "RootedSubgraphs",
    "SubgraphDrop",
    "TrainingStep",
    "WholeGraphs",
    "from_pretrained",
    "infer",
    "load",
    "train",
    "uplift",
    "wl",
]

# Submodules that are imported at their first use.
_PACKAGES = (
    *("datasets", "errors", "graphs", "loading", "loop", "models", "nn", "report"),
    *("sampling", "subgraphs", "testing", "training", "wl"),
)
# For each module, the public names that are imported from it at their first use.
_HOMES = {
    "gnnak.errors": ("GnnakError",),
    "gnnak.loading": ("Budget", "GraphLoader", "RootLoader"),
    "gnnak.nn": ("GNNAK", "PAPER", "PUBLISHED", "LayerOptions", "uplift"),
    "gnnak.sampling": ("SubgraphDrop",),
    "gnnak.subgraphs": (
        "EgoNets",
        "NodeDeletion",
        "PageRankNeighbors",
        "RandomWalks",
        "RootedSubgraphs",
        "WholeGraphs",
    ),
    "gnnak.loop.infer": ("infer",),
    "gnnak.loop.training_step": ("TrainingStep",),
    "gnnak.training.estimator": ("GNNAKClassifier", "GNNAKRegressor"),
    "gnnak.training.own": ("train",),
    "gnnak.training.trained": ("from_pretrained", "load"),
}


def _find_backend() -> Backend:
    if find_spec("gnnak.fast") is None:
        return PLAIN
    return import_module("gnnak.fast").default_backend()


set_default_backend(_find_backend)


def __getattr__(name: str) -> Any:
    """Import a public name at first use, so that the command line starts at once."""
    if name in _PACKAGES:
        return import_module(f"gnnak.{name}")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'gnnak' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES, "__version__"})

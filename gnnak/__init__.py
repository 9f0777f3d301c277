"""Uplift any GNN from stars to rooted subgraphs (GNN-AK and GNN-AK+)."""

from gnnak import wl
from gnnak.errors import GnnakError
from gnnak.nn import GNNAK, PAPER, PUBLISHED, Departures, uplift
from gnnak.sampling import SubgraphDrop
from gnnak.subgraphs import EgoNets, RandomWalks, RootedSubgraphs

__version__ = "0.1.0"

__all__ = [
    "GNNAK",
    "PAPER",
    "PUBLISHED",
    "Departures",
    "EgoNets",
    "GnnakError",
    "RandomWalks",
    "RootedSubgraphs",
    "SubgraphDrop",
    "uplift",
    "wl",
]

"""Uplift any GNN from stars to rooted subgraphs (GNN-AK and GNN-AK+)."""

from gnnak.nn.departures import PAPER, PUBLISHED, Departures
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs import EgoNets, RandomWalks, RootedSubgraphs

__version__ = "0.1.0"

__all__ = [
    "GNNAK",
    "PAPER",
    "PUBLISHED",
    "Departures",
    "EgoNets",
    "RandomWalks",
    "RootedSubgraphs",
]

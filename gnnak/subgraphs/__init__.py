"""Extract rooted subgraphs (egonets, random-walk subgraphs) from graphs."""

from gnnak.subgraphs.egonets import EgoNets, egonets
from gnnak.subgraphs.from_pyg import rooted_from_pyg
from gnnak.subgraphs.node2vec import random_walks
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.walks import RandomWalks, walk_subgraphs

__all__ = [
    "EgoNets",
    "RandomWalks",
    "RootedSubgraphs",
    "egonets",
    "random_walks",
    "rooted_from_pyg",
    "walk_subgraphs",
]

"""Extract rooted subgraphs from graphs: egonets, random walks, whole graphs."""

from gnnak.subgraphs.across import AcrossEdges, across_edges, across_whole
from gnnak.subgraphs.egonets import EgoNets, egonets
from gnnak.subgraphs.extractors import Extractor, extract
from gnnak.subgraphs.from_pyg import rooted_from_pyg
from gnnak.subgraphs.masked import (
    MaskedEgoNets,
    NodeDeletion,
    masked_egonets,
    node_deletions,
)
from gnnak.subgraphs.node2vec import random_walks
from gnnak.subgraphs.pairs import closed_walks, root_mark, rrwp, short_distance
from gnnak.subgraphs.resistances import resistance
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.walks import RandomWalks, walk_subgraphs
from gnnak.subgraphs.whole import WholeGraphs, whole_graphs
from gnnak.subgraphs.with_encodings import StructuralEncoding, WithEncodings

__all__ = [
    "AcrossEdges",
    "EgoNets",
    "Extractor",
    "MaskedEgoNets",
    "NodeDeletion",
    "RandomWalks",
    "RootedSubgraphs",
    "StructuralEncoding",
    "WholeGraphs",
    "WithEncodings",
    "across_edges",
    "across_whole",
    "closed_walks",
    "egonets",
    "extract",
    "masked_egonets",
    "node_deletions",
    "random_walks",
    "resistance",
    "root_mark",
    "rooted_from_pyg",
    "rrwp",
    "short_distance",
    "walk_subgraphs",
    "whole_graphs",
]

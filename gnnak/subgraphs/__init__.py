"""Extract rooted subgraphs from graphs: egonets, walks, PageRank, whole graphs."""

from gnnak.subgraphs.attached import rooted_from_pyg
from gnnak.subgraphs.capped import capped_egonets
from gnnak.subgraphs.egonets import EgoNets, egonets
from gnnak.subgraphs.encodings import (
    StructuralEncoding,
    WithEncodings,
    closed_walks,
    distance_counts,
    resistance,
    root_mark,
    rrwp,
    short_distance,
    structural_encodings,
)
from gnnak.subgraphs.extractors import Extractor, extract
from gnnak.subgraphs.induce import (
    AcrossEdges,
    EdgePairs,
    across_edges,
    across_whole,
    edge_pairs,
)
from gnnak.subgraphs.pagerank import PageRankNeighbors, pagerank_neighbors
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.walks import RandomWalks, random_walks, walk_subgraphs
from gnnak.subgraphs.whole import (
    MaskedEgoNets,
    NodeDeletion,
    WholeGraphs,
    masked_egonets,
    node_deletions,
    whole_graphs,
)

__all__ = [
    "AcrossEdges",
    "EdgePairs",
    "EgoNets",
    "Extractor",
    "MaskedEgoNets",
    "NodeDeletion",
    "PageRankNeighbors",
    "RandomWalks",
    "RootedSubgraphs",
    "StructuralEncoding",
    "WholeGraphs",
    "WithEncodings",
    "across_edges",
    "across_whole",
    "capped_egonets",
    "closed_walks",
    "distance_counts",
    "edge_pairs",
    "egonets",
    "extract",
    "masked_egonets",
    "node_deletions",
    "pagerank_neighbors",
    "random_walks",
    "resistance",
    "root_mark",
    "rooted_from_pyg",
    "rrwp",
    "short_distance",
    "structural_encodings",
    "walk_subgraphs",
    "whole_graphs",
]

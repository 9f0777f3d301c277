"""Graphs stored as flat tensors, and readers and writers of graph formats."""

from gnnak.graphs.batch import GraphBatch
from gnnak.graphs.readers.graph6 import (
    format_graph6,
    parse_graph6,
    read_graph6,
    write_graph6,
)
from gnnak.graphs.readers.networkx import find_categories, from_networkx, to_networkx
from gnnak.graphs.readers.npz import GraphFile, read_npz, write_npz
from gnnak.graphs.readers.pyg import from_pyg, to_pyg
from gnnak.graphs.readers.smiles import from_smiles
from gnnak.graphs.store import GraphStore

__all__ = [
    "GraphBatch",
    "GraphFile",
    "GraphStore",
    "find_categories",
    "format_graph6",
    "from_networkx",
    "from_pyg",
    "from_smiles",
    "parse_graph6",
    "read_graph6",
    "read_npz",
    "to_networkx",
    "to_pyg",
    "write_graph6",
    "write_npz",
]

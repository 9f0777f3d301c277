"""Graphs stored as flat tensors, and readers and writers of graph formats."""

from gnnak.graphs.batch import GraphBatch
from gnnak.graphs.readers import (
    GraphFile,
    find_categories,
    format_graph6,
    from_networkx,
    from_pyg,
    from_smiles,
    parse_graph6,
    read_graph6,
    read_npz,
    to_networkx,
    to_pyg,
    write_graph6,
    write_npz,
)
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

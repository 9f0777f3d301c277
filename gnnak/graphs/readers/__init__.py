"""Convert files and other libraries' graphs to a `GraphStore`, and back."""

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

__all__ = [
    "GraphFile",
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

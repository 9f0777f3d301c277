"""Read PyG `Data` objects from files that `torch.save` wrote, without running code."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from gnnak.errors import FileFormatError
from gnnak.graphs.readers.files import FilePath, read_bytes
from gnnak.wording import kind_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

FIELDS = ("x", "edge_index", "edge_attr", "y", "num_nodes")
"""The fields of a graph that is stored as a dict."""


def read_pyg(path: FilePath) -> list[Data]:
    """Read the graphs of a `.pt` file: one graph or a list of graphs.

    A graph is a PyG `Data`, or a dict with `edge_index` and, optionally, `x`,
    `edge_attr`, `y` and `num_nodes`. The file is read with `weights_only=True`: a
    pickle with any other object is refused, because it could run code.

    Raises:
        FileFormatError: If the file is missing, damaged, or has other objects.
    """
    from torch_geometric.data import Data  # takes seconds to import
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    # The classes that a pickled Data consists of; building them runs no foreign code.
    harmless = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
    content = io.BytesIO(read_bytes(path))
    try:
        with torch.serialization.safe_globals(harmless):
            found = torch.load(content, map_location="cpu", weights_only=True)
    except Exception as error:  # PyTorch raises errors of any type on damaged files
        raise FileFormatError(
            f"{path} is damaged, or has objects other than tensors and PyG Data, which "
            "could run code; save a list of Data with torch.save."
        ) from error
    items = list(found) if isinstance(found, list | tuple) else [found]
    graphs = [_as_data(item) for item in items]
    for number, graph in enumerate(graphs, start=1):
        if not isinstance(graph, Data):
            raise FileFormatError(
                f"{path}, item {number} is {kind_of(graph)}; give PyG Data, or "
                "dicts with edge_index."
            )
    return graphs


def _as_data(item: Any) -> Any:
    """Convert a dict of tensors to a `Data`; return anything else unchanged."""
    from torch_geometric.data import Data

    if not isinstance(item, Mapping) or not set(item) <= set(FIELDS):
        return item
    return Data(**item)

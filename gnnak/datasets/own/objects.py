"""Convert Python objects with graphs to lists and stores."""

from __future__ import annotations

from typing import Any

import torch

from gnnak.errors import GraphError
from gnnak.graphs import GraphBatch, GraphStore
from gnnak.wording import kind_of


def store_of(batch: GraphBatch) -> GraphStore:
    """Convert a batch back to a store, on the CPU; targets are left out."""
    batch = batch.to("cpu")
    graph = batch.batch[batch.edge_index[0]]
    num_edges = torch.bincount(graph, minlength=batch.num_graphs)
    local = batch.edge_index - batch.ptr[graph]
    return GraphStore(batch.ptr.diff(), num_edges, local, batch.x, batch.edge_attr)


def as_items(data: Any) -> list[Any]:
    """Return graphs as a list; a single graph is a list of one."""
    if hasattr(data, "to_data_list"):
        return list(data.to_data_list())
    if hasattr(data, "edge_index") or hasattr(data, "adj"):
        return list(data) if _is_dataset(data) else [data]
    try:
        # A set has no order, and a data frame of pandas is a list of column names.
        is_frame = hasattr(data, "columns") and hasattr(data, "iloc")
        if is_frame or isinstance(data, dict | set | frozenset | bytes):
            raise TypeError
        return list(data)
    except TypeError as error:
        raise GraphError(
            f"the data are {kind_of(data)}; give a path, or a list of SMILES "
            "strings (such as a column of a table), PyG Data or networkx graphs."
        ) from error


def _is_dataset(data: Any) -> bool:
    """Return whether an object is a PyG data set, which has the fields of a graph."""
    from torch_geometric.data import Dataset

    return isinstance(data, Dataset)

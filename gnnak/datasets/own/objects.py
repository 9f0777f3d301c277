"""Convert Python objects with graphs to lists and stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gnnak.datasets.own.frames import as_array, is_frame, is_series, refuse_frame
from gnnak.errors import GraphError, kind_of
from gnnak.graphs import GraphBatch, GraphStore


def store_of(batch: GraphBatch) -> GraphStore:
    """Convert a batch back to a store, on the CPU; targets are left out."""
    batch = batch.to("cpu")
    graph = batch.batch[batch.edge_index[0]]
    num_edges = torch.bincount(graph, minlength=batch.num_graphs)
    local = batch.edge_index - batch.ptr[graph]
    return GraphStore(batch.ptr.diff(), num_edges, local, batch.x, batch.edge_attr)


def as_items(data: Any) -> list[Any]:
    """Return graphs as a list; a single graph is a list of one.

    Raises:
        GraphError: If the object is no graph and no list, such as a set or a whole data
            frame.
    """
    if is_frame(data):
        refuse_frame(data)
    if is_series(data):
        return list(as_array(data))
    if hasattr(data, "to_data_list"):
        return list(data.to_data_list())
    if hasattr(data, "edge_index") or hasattr(data, "adj"):
        return list(data) if _is_dataset(data) else [data]
    try:
        # A set has no order.
        if isinstance(data, dict | set | frozenset | bytes):
            raise TypeError
        return list(data)
    except TypeError as error:
        raise GraphError(
            f"the data are {kind_of(data)}; give a path, or a list of SMILES "
            "strings (such as a column of a table), PyG Data or networkx graphs."
        ) from error


def are_smiles(items: Sequence[Any]) -> bool:
    """Return whether the first item that is not missing is a SMILES string.

    >>> are_smiles([None, float("nan"), "CCO"]), are_smiles([])
    (True, False)
    """
    # Missing values of a column of texts are None or NaN, a float.
    known = (item for item in items if not isinstance(item, float | None))
    return isinstance(next(known, None), str)


def _is_dataset(data: Any) -> bool:
    """Return whether an object is a PyG data set, which has the fields of a graph."""
    from torch_geometric.data import Dataset

    return isinstance(data, Dataset)

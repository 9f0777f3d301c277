"""Read the edges of a graph in every form that PyG convs take."""

import threading
import weakref
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import to_edge_index
from torch_geometric.utils.sparse import is_sparse

from gnnak.errors import GraphError
from gnnak.wording import kind_of


class EdgeReader:
    """Converts edges to an int64 tensor `edge_index`, [2, e], and edge values.

    Edges may be such a tensor, with int64 or int32 numbers, or a sparse matrix: a
    PyTorch sparse tensor or a `SparseTensor` of torch-sparse. As in PyG, a sparse
    matrix is the transposed adjacency matrix: entry (i, j) is the edge from j to i.

    Equal edges give the same tensor object as long as the user's object exists, so that
    subgraphs that were extracted for this tensor can be reused. Each thread has its own
    cache.
    """

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def read(self, edges: Any, num_nodes: int) -> tuple[Tensor, Tensor | None]:
        """Return `edge_index`, [2, e], and the values of a sparse matrix, [e, ...].

        The values are None if `edges` is not a sparse matrix.

        Raises:
            GraphError: If `edges` is neither a tensor nor a sparse matrix with
                `num_nodes` rows and columns, or is a dense adjacency matrix.
        """
        if is_sparse(edges):
            if (edges.size(0), edges.size(1)) != (num_nodes, num_nodes):
                raise GraphError(
                    f"the sparse matrix of the edges has {edges.size(0)} rows and "
                    f"{edges.size(1)} columns, but x has {num_nodes} nodes; give one "
                    "row and one column per node."
                )
            (row, column), values = _entries(edges)
            return self._cached(edges, torch.stack([column, row])), values
        if not isinstance(edges, Tensor):
            raise GraphError(
                f"edge_index is {kind_of(edges)}; an uplifted conv takes an "
                "edge_index tensor [2, e] or a sparse matrix adj_t."
            )
        if edges.is_floating_point() and edges.shape == (num_nodes, num_nodes):
            raise GraphError(
                f"edge_index is a dense matrix of shape {list(edges.shape)}; convert "
                "it with torch_geometric.utils.dense_to_sparse, which returns "
                "edge_index, [2, e], and edge weights."
            )
        if type(edges) is not Tensor and hasattr(edges, "as_tensor"):
            edges = self._cached(edges, edges.as_tensor())
        if edges.dtype in (torch.int32, torch.int16):
            return self._cached(edges, edges.long()), None
        return edges, None

    def _cached(self, owner: Any, edge_index: Tensor) -> Tensor:
        """Return the tensor that was made last from an object with these edges.

        If there is none, cache `edge_index`, until `owner` is freed.
        """
        state = self._of_thread
        last: Tensor | None = getattr(state, "edge_index", None)
        if last is not None and _equal(last, edge_index):
            edge_index = last

        def forget(dead: object) -> None:
            if getattr(state, "owner", None) is dead:
                state.owner = state.edge_index = None

        state.edge_index, state.owner = edge_index, weakref.ref(owner, forget)
        return edge_index

    def __getstate__(self) -> dict[str, object]:
        return {}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__()  # type: ignore[misc]


def _entries(matrix: Any) -> tuple[Tensor, Tensor]:
    """Return rows and columns, [2, e], and values, [e, ...], of a sparse matrix."""
    if isinstance(matrix, Tensor) and matrix.layout == torch.sparse_coo:
        # PyG's function would mark the user's matrix as coalesced.
        return matrix._indices(), matrix._values()
    return to_edge_index(matrix)


def _equal(one: Tensor, other: Tensor) -> bool:
    same_kind = one.dtype == other.dtype and one.device == other.device
    return same_kind and torch.equal(one, other)

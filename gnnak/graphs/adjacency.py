"""Incoming edges in compressed sparse row (CSR) form, and checks of `edge_index`."""

from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.typing import check_count
from gnnak.wording import kind_of


class Neighbors(NamedTuple):
    """The neighbours of every node along incoming edges, in CSR form.

    The neighbours of node `v` are `node[ptr[v]:ptr[v + 1]]`, the sources of the edges
    that end at `v`; the same slice of `edge` has the edges. Both are sorted by
    neighbour, then by edge. In shapes, n and e are the numbers of nodes and edges.
    """

    ptr: Tensor
    """[n + 1]: row pointer (CSR): where the neighbours of each node start in `node`."""
    node: Tensor
    """[e]: the neighbours of all nodes, one node after the other. A neighbour is the
    source of an incoming edge."""
    edge: Tensor
    """[e]: for each entry of `node`, the column of its edge in `edge_index`."""
    key: Tensor
    """[e]: `v * n + u` for every node `v` and every neighbour `u` of `v`. The keys are
    sorted, so that a binary search finds whether two nodes are joined."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return self.ptr.numel() - 1

    def rows(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return where the neighbours of the given nodes are stored.

        Args:
            nodes: Node numbers, of any shape.

        Returns:
            The position of each node's first neighbour in `node` and `edge`, and the
            node's number of neighbours; both shaped like `nodes`.
        """
        start = self.ptr.index_select(0, nodes)
        return start, self.ptr[1:].index_select(0, nodes) - start


def incoming(edge_index: Tensor, num_nodes: int) -> Neighbors:
    """Find the neighbours of every node `v`: all nodes `u` with an edge `u -> v`.

    Args:
        edge_index: Directed edges, [2, e].
        num_nodes: Number of nodes, n.
    """
    source, target = edge_index
    unsorted = torch.add(source, target, alpha=num_nodes)
    key, edge = torch.sort(unsorted, stable=True)
    step = max(num_nodes, 1)
    first = torch.arange(0, (num_nodes + 1) * step, step, device=key.device)
    ptr = torch.searchsorted(key, first)
    return Neighbors(ptr, source.index_select(0, edge), edge, key)


def check_edge_shape(edge_index: Tensor) -> None:
    """Raise `GraphError` unless `edge_index` is an int64 tensor of shape [2, e]."""
    if not isinstance(edge_index, Tensor):
        kind = kind_of(edge_index)
        raise GraphError(f"edge_index is {kind}; give an int64 tensor of shape [2, e].")
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        shape = list(edge_index.shape)
        raise GraphError(
            f"edge_index has shape {shape}; give [2, e], one column per edge."
        )
    if edge_index.dtype != torch.long:
        raise GraphError(
            f"edge_index has dtype {edge_index.dtype}; convert it with .long()."
        )


def check_edge_index(edge_index: Tensor, num_nodes: int) -> None:
    """Raise `GraphError` unless `edge_index` is int64 [2, e] with valid node numbers.

    Node numbers must be in 0..num_nodes-1.
    """
    check_count("num_nodes", num_nodes)
    check_edge_shape(edge_index)
    if edge_index.numel() == 0:
        return
    # Reading both numbers at once synchronises with the device once.
    low, high = torch.stack(edge_index.aminmax()).tolist()
    if low < 0 or high >= num_nodes:
        wrong = low if low < 0 else high
        raise GraphError(
            f"edge_index names node {wrong}, but the graph has {num_nodes} nodes "
            f"(0 to {num_nodes - 1}); check num_nodes or the edges."
        )

"""Neighbours in compressed sparse row (CSR) form, components, and distances."""

from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.errors import GraphError, kind_of
from gnnak.graphs.ragged import distinct, sort_pairs
from gnnak.typing import check_count


class Neighbors(NamedTuple):
    """Sources of incoming edges; those of node `v` are `node[ptr[v]:ptr[v + 1]]`."""

    ptr: Tensor
    """[n + 1]: row pointer."""
    node: Tensor
    """[e]: the neighbours of node 0 in increasing order, then those of node 1, ..."""
    edge: Tensor
    """[e]: the column of `edge_index` for each entry of `node`."""
    key: Tensor
    """[e], sorted: `v * n + u` for each neighbour `u` of `v`, to look up edges."""

    @property
    def num_nodes(self) -> int:
        return self.ptr.numel() - 1

    def rows(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return where each node's neighbours begin in `self.node`, and how many."""
        start = self.ptr.index_select(0, nodes)
        return start, self.ptr[1:].index_select(0, nodes) - start


def incoming(edge_index: Tensor, num_nodes: int) -> Neighbors:
    """Find the neighbours of every node `v`: all nodes `u` with an edge `u -> v`."""
    source, target = edge_index
    unsorted = torch.add(source, target, alpha=num_nodes)
    step = max(num_nodes, 1)
    key, edge = sort_pairs(unsorted, step * step)
    first = torch.arange(0, (num_nodes + 1) * step, step, device=key.device)
    ptr = torch.searchsorted(key, first)
    return Neighbors(ptr, source.index_select(0, edge), edge, key)


def joined_nodes(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """List all pairs of adjacent nodes, sorted, both as (u, v) and as (v, u)."""
    both = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    pair = torch.unique(both[1] * num_nodes + both[0])
    return pair // max(num_nodes, 1), pair % max(num_nodes, 1)


def has_reverse(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return whether each edge u -> v has a reverse edge v -> u, [e]."""
    source, target = edge_index
    return torch.isin(target * num_nodes + source, source * num_nodes + target)


def check_edge_shape(edge_index: Tensor) -> None:
    if not isinstance(edge_index, Tensor):
        kind = kind_of(edge_index)
        raise GraphError(f"edge_index is {kind}; give an int64 tensor of shape [2, e].")
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        told = f"edge_index has shape {list(edge_index.shape)}"
        raise GraphError(f"{told}; give [2, e], one column per edge.")
    if edge_index.dtype != torch.long:
        told = f"edge_index has dtype {edge_index.dtype}"
        raise GraphError(f"{told}; convert it with .long().")


def check_edge_index(edge_index: Tensor, num_nodes: int) -> None:
    check_count("num_nodes", num_nodes)
    check_edge_shape(edge_index)
    if edge_index.numel() == 0:
        return
    if edge_index.is_meta:
        told = "edge_index is on the device meta, which stores no values"
        raise GraphError(f"{told}; give one on a CPU or a GPU.")
    # Reading both numbers at once synchronises with the device once.
    low, high = torch.stack(edge_index.aminmax()).tolist()
    if low < 0 or high >= num_nodes:
        wrong = low if low < 0 else high
        told = f"edge_index names node {wrong}, but the graph has {num_nodes} nodes"
        raise GraphError(f"{told} (0 to {num_nodes - 1}); check both.")


def check_roots(roots: Tensor | None, num_nodes: int, device: torch.device) -> Tensor:
    """Convert `roots` (node numbers, a mask, or None for all nodes) to numbers, [s].

    >>> check_roots(torch.tensor([True, False, True]), 3, torch.device("cpu"))
    tensor([0, 2])
    """
    if roots is None:
        return torch.arange(num_nodes, device=device)
    kind = roots.dtype if isinstance(roots, Tensor) else kind_of(roots)
    if kind not in (torch.long, torch.bool) or roots.dim() != 1:
        shown = f"{kind} {list(roots.shape)}" if isinstance(roots, Tensor) else kind
        wanted = f"or a mask of nodes as a bool tensor [{num_nodes}]"
        told = f"roots is {shown}; give nodes as an int64 tensor [s]"
        raise GraphError(f"{told}, {wanted}.")
    if kind == torch.bool:
        if roots.numel() != num_nodes:
            told = f"roots is a mask of {roots.numel()} nodes, but the graph has"
            raise GraphError(f"{told} {num_nodes}; give one entry for each node.")
        return roots.nonzero().flatten().to(device)
    in_order = distinct(roots)
    low, high = (int(in_order[0]), int(in_order[-1])) if roots.numel() else (0, -1)
    if low < 0 or high >= num_nodes:
        wrong = low if low < 0 else high
        told = f"roots names node {wrong}, but the graph has {num_nodes} nodes"
        raise GraphError(f"{told} (0 to {num_nodes - 1}); give nodes of this graph.")
    if in_order.numel() != roots.numel():
        raise GraphError("roots contains a node twice; give each node at most once.")
    return roots.to(device)


def components(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, int]:
    """Return the weakly connected component of each node, [n], and their number."""
    source = torch.cat([edge_index[0], edge_index[1]])
    target = torch.cat([edge_index[1], edge_index[0]])
    label = torch.arange(num_nodes, device=edge_index.device)
    for _ in range(num_nodes):
        near = label.scatter_reduce(0, target, label[source], "amin")
        near = torch.minimum(near, label.scatter_reduce(0, label, near, "amin"))
        near = near[near]
        if torch.equal(near, label):
            break
        label = near
    smallest, component = torch.unique(label, return_inverse=True)
    return component, smallest.numel()


def hops_to_root(
    edge_index: Tensor, roots: Tensor, num_nodes: int, max_hops: int
) -> Tensor:
    """Return each node's distance to the nearest root, [n]; -1 beyond `max_hops`."""
    source, target = edge_index
    hop = torch.full((num_nodes,), -1, dtype=torch.long, device=edge_index.device)
    hop[roots] = 0
    for distance in range(1, max_hops + 1):
        into = (hop.index_select(0, target) == distance - 1).nonzero().flatten()
        reached = source.index_select(0, into)
        reached = reached[hop.index_select(0, reached) < 0]
        if not reached.numel():
            break
        hop[reached] = distance
    return hop

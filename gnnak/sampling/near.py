"""The neighbours of every node, as positions in their connected component."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of, pointers
from gnnak.subgraphs.groups import Groups


@dataclass(frozen=True, eq=False)
class Near:
    """The distinct neighbours of each node, in compressed sparse row (CSR) form.

    Edge directions are ignored. The neighbours of node v are
    `place[start[v] : start[v] + count[v]]`. They are stored as *places*: the place of a
    node is its position among the nodes of its connected component. Unlike node
    numbers, places do not change when a graph becomes part of another batch.
    """

    place: Tensor
    """[p], int32: for each pair of a node and a neighbour, p pairs in all, the position
    of the neighbour among the nodes of its component. Pairs are grouped by node, and
    positions ascend within a node."""
    start: Tensor
    """[n]: position in `place` of each node's first neighbour."""
    count: Tensor
    """[n]: number of neighbours of each node; a node with a self loop is its own
    neighbour."""


def near_places(edge_index: Tensor, component: Tensor, groups: Groups) -> Near:
    """Find the neighbours of every node of a batch, ignoring edge directions.

    A neighbour is given by its position among the nodes of its connected component. In
    the example, nodes 0 and 2 are neighbours; they are at positions 0 and 1.

    Args:
        edge_index: Directed edges, [2, e].
        component: The connected component of each node, [n].
        groups: The nodes grouped by component, in CSR form.

    >>> from gnnak.subgraphs.groups import group
    >>> component = torch.tensor([0, 1, 0])
    >>> near = near_places(torch.tensor([[0], [2]]), component, group(component, 2))
    >>> near.place.tolist(), near.count.tolist()
    ([1, 0], [1, 0, 1])
    """
    num_nodes, order = component.numel(), groups.order
    assert order is not None, "nodes are grouped by a sort"
    place = torch.empty_like(order)
    place[order] = torch.arange(num_nodes, device=order.device)
    place -= groups.ptr.index_select(0, component)
    both = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    pair = torch.unique(both[1] * num_nodes + both[0])
    size = max(num_nodes, 1)
    count = counts_of(pair // size, num_nodes)
    rows = place.index_select(0, pair % size).int()
    return Near(rows, pointers(count)[:-1], count)

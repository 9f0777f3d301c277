"""The neighbours of every node, by their places in its component."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of, pointers
from gnnak.subgraphs.groups import Groups


@dataclass(frozen=True, eq=False)
class Near:
    """Neighbours as rows of places; edges count in both directions, parallel ones once.

    Places do not change when graphs are put together in another way.
    """

    place: Tensor
    """[p], int32: row after row, in rising order in each."""
    start: Tensor
    """[n]: where the row of each node starts."""
    count: Tensor
    """[n]: how many neighbours each node has; it may be one itself."""


def near_places(edge_index: Tensor, component: Tensor, groups: Groups) -> Near:
    """Find the neighbours of every node.

    Args:
        edge_index: Directed edges, [2, e].
        component: The component of each node, [n].
        groups: Nodes grouped by it.

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

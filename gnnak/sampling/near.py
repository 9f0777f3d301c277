"""The neighbours of every node, stored as positions within a connected component."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of, pointers, ragged_ranges
from gnnak.subgraphs.groups import Groups


@dataclass(frozen=True, eq=False)
class Near:
    """The distinct neighbours of each node, in compressed sparse row (CSR) form.

    Edge directions are ignored. The neighbours of node v are
    `place[start[v] : start[v] + count[v]]`. A neighbour is not stored as a node number,
    but as its position among the nodes of its connected component: unlike node numbers,
    these positions do not depend on the batch that the graph is in.
    """

    place: Tensor
    """[p], int32: the neighbours of all nodes, p in total, grouped by node and in
    ascending order for each node. A neighbour is given by its position among the nodes
    of its connected component."""
    start: Tensor
    """[n]: where the neighbours of each node start in `place`."""
    count: Tensor
    """[n]: number of neighbours of each node; a node with a self loop is its own
    neighbour."""

    def nodes(self, component: Tensor, groups: Groups) -> tuple[Tensor, Tensor]:
        """Return the neighbours of all nodes as node numbers, in CSR form.

        Args:
            component: The connected component of each node, [n].
            groups: The nodes grouped by component, in CSR form.

        Returns:
            Where the neighbours of each node start, [n + 1], and the neighbours.
        """
        assert groups.order is not None, "nodes are grouped by a sort"
        of, entry = ragged_ranges(self.start, self.count)
        first = groups.ptr.index_select(0, component.index_select(0, of))
        place = first + self.place.index_select(0, entry)
        return pointers(self.count), groups.order.index_select(0, place)


def near_places(edge_index: Tensor, component: Tensor, groups: Groups) -> Near:
    """Find the neighbours of every node of a batch, ignoring edge directions.

    In the result, a neighbour is given by its position among the nodes of its connected
    component. In the example, nodes 0 and 2 are neighbours and form a component, in
    which they have the positions 0 and 1.

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

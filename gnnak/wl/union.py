"""`GraphUnion`, a disjoint union of coloured graphs: the input of all WL tests."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of, pointers, ragged_ranges
from gnnak.subgraphs.induce import find_sorted
from gnnak.wl.interning import rank, rank_multisets, rank_pairs


@dataclass(frozen=True, eq=False)
class GraphUnion:
    """A disjoint union of graphs with coloured nodes and coloured pairs of nodes.

    It is the input of all Weisfeiler-Leman (WL) tests. Colours are numbers that can be
    compared across the graphs of a union: equal labels have equal colours. All tensors
    are on one device; every axis may be empty.
    """

    num_graphs: int
    """Number g of graphs, including graphs without nodes."""
    graph: Tensor
    """[n]: the index (0 to g - 1) of the graph that each node belongs to, in ascending
    order; g is the number of graphs."""
    node_color: Tensor
    """[n]: the initial colour of each node."""
    edge_index: Tensor
    """[2, e]: all ordered pairs (u, v) of nodes with an arc (directed edge) u -> v or
    v -> u, without duplicates. So the pair (v, u) is included whenever (u, v) is."""
    edge_color: Tensor
    """[e]: the colour of each pair (u, v) in `edge_index`. The colour encodes the
    labels of all arcs (directed edges) u -> v and of all arcs v -> u, and thereby their
    direction and number."""
    forward: Tensor
    """[e], bool: whether there is an arc (directed edge) u -> v, for each pair (u, v)
    in `edge_index`. If False, there are only arcs v -> u."""

    @property
    def num_nodes(self) -> int:
        """Number n of nodes of all graphs together."""
        return self.graph.numel()

    @property
    def sizes(self) -> Tensor:
        """Number of nodes of each of the g graphs, [g]."""
        return counts_of(self.graph, self.num_graphs)

    def recolored(self, node_color: Tensor) -> GraphUnion:
        """Return a union of the same graphs with `node_color`, [n], as node colours."""
        return replace(self, node_color=node_color)

    def select(self, graphs: Tensor) -> GraphUnion:
        """Return a union of some graphs of this union, in the given order.

        Args:
            graphs: Indices of the h selected graphs, [h]; repeats are allowed.
        """
        nodes, place = _members(self.graph, self.num_graphs, graphs)
        home = self.graph[self.edge_index[1]]
        order = torch.argsort(home, stable=True)
        entries, edge_place = _members(home[order], self.num_graphs, graphs)
        edges = order[entries]
        first = torch.searchsorted(self.graph, torch.arange(self.num_graphs))
        begin = torch.searchsorted(place, torch.arange(graphs.numel()))
        shift = (begin - first[graphs])[edge_place]
        return GraphUnion(
            num_graphs=graphs.numel(),
            graph=place,
            node_color=self.node_color[nodes],
            edge_index=self.edge_index[:, edges] + shift,
            edge_color=self.edge_color[edges],
            forward=self.forward[edges],
        )


def _members(home: Tensor, size: int, graphs: Tensor) -> tuple[Tensor, Tensor]:
    """List the nodes (or edges) of the selected graphs, graph by graph.

    `home` is the index of the graph of each node (or edge), in ascending order, and
    `size` the number of graphs. Returns the indices of the listed nodes (or edges), and
    for each of them the position of its graph in `graphs`.
    """
    count = counts_of(home, size)
    place, entry = ragged_ranges(pointers(count)[:-1][graphs], count[graphs])
    return entry, place


def union_of_arcs(
    sizes: Tensor, arcs: Tensor, node_label: Tensor, arc_label: Tensor
) -> GraphUnion:
    """Build a `GraphUnion` from labelled arcs (directed edges).

    Args:
        sizes: Number of nodes of each graph, [g].
        arcs: The a arcs between nodes of the union, [2, a]; repeats are allowed.
        node_label: Label of each node as an integer, [n].
        arc_label: Label of each arc as an integer, [a].

    >>> path = union_of_arcs(
    ...     torch.tensor([2]), torch.tensor([[0], [1]]), torch.zeros(2).long(),
    ...     torch.zeros(1).long())
    >>> path.edge_index.tolist(), path.edge_color.tolist(), path.forward.tolist()
    ([[0, 1], [1, 0]], [1, 0], [True, False])
    """
    num_nodes = int(sizes.sum())
    source, target = arcs
    size = max(num_nodes, 1)
    key = source * size + target
    back = target * size + source
    pairs = torch.unique(torch.cat([key, back]))
    ends = torch.stack([pairs // size, pairs % size])
    row = find_sorted(pairs, key)[0]
    labels = rank_multisets(row, arc_label, pairs.numel())
    mirror = find_sorted(pairs, ends[1] * size + ends[0])[0]
    forward = counts_of(row, pairs.numel()) > 0
    graph = torch.arange(sizes.numel()).repeat_interleave(sizes)
    return GraphUnion(
        num_graphs=sizes.numel(),
        graph=graph,
        node_color=rank(node_label),
        edge_index=ends,
        edge_color=rank_pairs(labels, labels[mirror]),
        forward=forward,
    )

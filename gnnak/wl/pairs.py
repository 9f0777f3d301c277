"""List the pairs (u, v) that subgraph Weisfeiler-Leman tests colour, and their steps.

The pair (u, v) stands for node v in the subgraph rooted at u. The subgraph is an egonet
or the whole graph of u.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.graphs.adjacency import Neighbors, incoming
from gnnak.graphs.ragged import pointers, ragged_ranges
from gnnak.subgraphs import egonets
from gnnak.subgraphs.induce import find_sorted
from gnnak.wl.interning import rank_pairs
from gnnak.wl.union import GraphUnion


class Pairs(NamedTuple):
    """All pairs (u, v) of a root u and a node v of the subgraph rooted at u.

    Pairs are sorted by (u, v). In shapes, t is the number of pairs and n the number of
    nodes of all graphs.
    """

    root: Tensor
    """[t]: the root u of each pair."""
    node: Tensor
    """[t]: the node v of each pair."""
    graph: Tensor
    """[t]: the index of the graph that each pair belongs to."""
    own: Tensor
    """[n]: the index of the pair (v, v), for each node v."""
    key: Tensor
    """[t]: the number u * n + v of each pair (u, v), in ascending order."""

    @staticmethod
    def of(union: GraphUnion, num_hops: int | None) -> "Pairs":
        """List the pairs of all subgraphs.

        Args:
            union: The graphs.
            num_hops: Radius of the egonets; None = every subgraph is the whole graph of
                its root, including nodes that have no path to the root.
        """
        if num_hops is None:
            root, node = _whole_graphs(union)
        else:
            arcs = union.edge_index[:, union.forward]
            subs = egonets(arcs, union.num_nodes, num_hops)
            root, node = subs.subgraph, subs.node
        own = (root == node).nonzero().flatten()
        key = root * union.num_nodes + node
        return Pairs(root, node, union.graph[root], own, key)

    def find(self, root: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        """Return the index of each pair (root, node), and whether the pair exists.

        The index of a pair that does not exist is meaningless.
        """
        return find_sorted(self.key, root * self.own.numel() + node)


class Steps(NamedTuple):
    """The pairs whose colours one multiset of a test collects, for all pairs (u, v).

    In shapes, f is the number of entries of all multisets together.
    """

    target: Tensor
    """[f]: the index of the pair (u, v) whose multiset contains the entry."""
    label: Tensor
    """[f]: a number for the colours of the edges that the entry includes."""
    sources: tuple[Tensor, ...]
    """One or two tensors [f]: the indices of the pairs whose colours are the entry."""


def inside_steps(union: GraphUnion, pairs: Pairs) -> Steps:
    """Find the pairs (u, w) of each pair (u, v): w is a neighbour of v."""
    near = incoming(union.edge_index, union.num_nodes)
    target, entry = _neighbours(near, pairs.node)
    source, found = pairs.find(pairs.root[target], near.node[entry])
    label = union.edge_color[near.edge[entry]]
    return Steps(target[found], label[found], (source[found],))


def across_steps(union: GraphUnion, pairs: Pairs) -> Steps:
    """Find the pairs (w, v) of each pair (u, v): w is a neighbour of u."""
    near = incoming(union.edge_index, union.num_nodes)
    target, entry = _neighbours(near, pairs.root)
    source, found = pairs.find(near.node[entry], pairs.node[target])
    label = union.edge_color[near.edge[entry]]
    return Steps(target[found], label[found], (source[found],))


def folklore_steps(union: GraphUnion, pairs: Pairs, both: bool) -> Steps:
    """Find the pairs (u, w) and (w, v) of each pair (u, v), for some nodes w.

    The nodes w are the neighbours of v, and also those of u if `both` is True. A node w
    is left out if one of the two pairs does not exist. The label of an entry encodes
    whether there are edges u-w and w-v, and their colours.
    """
    near = incoming(union.edge_index, union.num_nodes)
    size = max(union.num_nodes, 1)
    ends = (pairs.node, pairs.root) if both else (pairs.node,)
    lists = [_neighbours(near, end) for end in ends]
    keys = [target * size + near.node[entry] for target, entry in lists]
    key = torch.unique(torch.cat(keys)) if both else keys[0]
    target, via = key // size, key % size
    root, node = pairs.root[target], pairs.node[target]
    first, first_found = pairs.find(root, via)
    second, second_found = pairs.find(via, node)
    found = first_found & second_found
    label = rank_pairs(
        _edge_label(union, near, root, via), _edge_label(union, near, via, node)
    )
    return Steps(target[found], label[found], (first[found], second[found]))


def _whole_graphs(union: GraphUnion) -> tuple[Tensor, Tensor]:
    """Return u and v of every pair of nodes (u, v) of the same graph, sorted."""
    first = pointers(union.sizes)[:-1]
    return ragged_ranges(first[union.graph], union.sizes[union.graph])


def _neighbours(near: Neighbors, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """List the neighbours of nodes[0], then those of nodes[1], and so on.

    Returns for each entry of the list the index i of its node in `nodes`, and the
    position of the neighbour in `near.node`.
    """
    return ragged_ranges(*near.rows(nodes))


def _edge_label(
    union: GraphUnion, near: Neighbors, source: Tensor, target: Tensor
) -> Tensor:
    """Return the colour of each edge source-target plus 1, and 0 if there is none."""
    place, found = find_sorted(near.key, target * union.num_nodes + source)
    if not near.key.numel():
        return torch.zeros_like(source)
    return torch.where(found, union.edge_color[near.edge[place]] + 1, 0)

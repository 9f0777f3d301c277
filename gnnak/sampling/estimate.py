"""Values at kept roots, made into values at every node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of, ragged_ranges
from gnnak.subgraphs.distances import hops_to_root
from gnnak.subgraphs.groups import Groups, group
from gnnak.subgraphs.rooted import Axis, RootedSubgraphs


@dataclass(frozen=True, eq=False)
class Filling:
    """How the values of kept roots make up those of every node: a sparse matrix.

    Rows of one node add up to one; a kept root takes its own value alone.
    """

    node: Tensor
    """[q]: the node that takes a share."""
    subgraph: Tensor
    """[q]: the kept subgraph whose value it takes a share of."""
    weight: Tensor
    """[q], float64: the share."""
    in_order: bool = False
    """Whether entries are known to come component by component, in order."""

    def at(self, entries: Tensor) -> Filling:
        """Some of the entries, or all of them in another order."""
        return self._each(lambda part: part.index_select(0, entries))

    def to(self, device: torch.device | str) -> Filling:
        """Return this matrix on another device."""
        return replace(self._each(lambda part: part.to(device)), in_order=self.in_order)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Filling:
        return Filling(change(self.node), change(self.subgraph), change(self.weight))


@dataclass(frozen=True, eq=False, repr=False)
class SampledSubgraphs(RootedSubgraphs):
    """Some of a batch's rooted subgraphs, and what stands in for the others."""

    held: Tensor = field(kw_only=True)
    """[n]: how many of *all* subgraphs held each node."""
    covered: Tensor = field(kw_only=True)
    """[n]: how many of those that were kept hold it; at least one."""
    filling: Filling = field(kw_only=True)
    """What every node takes of the values of kept roots."""

    def scale(self, dtype: torch.dtype) -> Tensor:
        """[n]: by how much sums over kept subgraphs are scaled up; computed once."""
        return self._once(f"scale {dtype}", lambda: self.held.to(dtype) / self.covered)

    def _group(self, axis: Axis) -> Groups:
        if axis == "taker":
            return group(self.filling.node, self.held.numel())
        if axis == "giver":
            return group(self.filling.subgraph, self.num_subgraphs)
        return super()._group(axis)

    def to(self, device: torch.device | str) -> Self:
        """Return this record on another device."""
        return replace(
            super().to(device),
            held=self.held.to(device),
            covered=self.covered.to(device),
            filling=self.filling.to(device),
        )


def plan_filling(edge_index: Tensor, num_nodes: int, roots: Tensor) -> Filling:
    r"""Spread values from `roots` to all nodes, layer by layer.

    $\mathcal{U}_d$ holds the nodes at distance $d$ from the kept roots, and

    $$h_u = \text{Mean}\,\{h_v \mid v \in \mathcal{U}_{d-1},\ (u, v) \in \mathcal{E}\}
      \quad \text{for}\ d = 1, \dots, d_{\max},\ u \in \mathcal{U}_d.$$

    The means of all layers are multiplied out once, so that every layer of a network
    needs a single pass. Edges count in both directions, parallel ones once. Nodes that
    no path joins to a root take nothing.

    Args:
        edge_index: Directed edges, [2, e].
        num_nodes: Number of nodes, n.
        roots: The kept roots, [s].
    """
    layer, source, target = _nearer_neighbors(edge_index, num_nodes, roots)
    share = counts_of(target, num_nodes).double().reciprocal()
    node, subgraph = roots, torch.arange(roots.numel(), device=roots.device)
    parts = [Filling(node, subgraph, torch.ones_like(node, dtype=torch.double))]
    depth = int(layer.max()) if num_nodes else 0
    for distance in range(1, depth + 1):
        here = (layer[target] == distance).nonzero().flatten()
        into, outof = target[here], source[here]
        parts.append(_next_layer(parts[-1], into, outof, share[into], roots.numel()))
    return Filling(
        torch.cat([part.node for part in parts]),
        torch.cat([part.subgraph for part in parts]),
        torch.cat([part.weight for part in parts]),
    )


def fill(values: Tensor, filling: Filling, num_nodes: int) -> Tensor:
    """Make the values of kept roots [s, c] into values of all nodes, [n, c]."""
    wide = values.float() if values.dtype.itemsize < 4 else values
    share = wide.index_select(0, filling.subgraph)
    share = share * filling.weight.to(wide.dtype)[:, None]
    known = wide.new_zeros(num_nodes, wide.size(1))
    return known.index_add(0, filling.node, share).to(values.dtype)


def _nearer_neighbors(
    edge_index: Tensor, num_nodes: int, roots: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The layer of every node, and all pairs (source, target) one layer apart."""
    both = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    pair = torch.unique(both[1] * num_nodes + both[0])
    size = max(num_nodes, 1)
    target, source = pair // size, pair % size
    layer = hops_to_root(torch.stack([source, target]), roots, num_nodes, num_nodes)
    nearer = (layer[source] == layer[target] - 1) & (layer[source] >= 0)
    kept = nearer.nonzero().flatten()
    return layer, source.index_select(0, kept), target.index_select(0, kept)


def _next_layer(
    before: Filling, target: Tensor, source: Tensor, share: Tensor, num_subgraphs: int
) -> Filling:
    """What the nodes of a layer take, by way of their neighbours in the one before."""
    order = torch.argsort(before.node, stable=True)
    nodes = before.node[order]
    start = torch.searchsorted(nodes, source)
    count = torch.searchsorted(nodes, source, right=True) - start
    pair, entry = ragged_ranges(start, count)
    entry = order[entry]
    key = target[pair] * num_subgraphs + before.subgraph[entry]
    key, place = torch.unique(key, return_inverse=True)
    weight = before.weight.new_zeros(key.numel())
    weight = weight.index_add(0, place, share[pair] * before.weight[entry])
    return Filling(key // num_subgraphs, key % num_subgraphs, weight)

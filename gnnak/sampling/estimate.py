"""Estimate encodings of dropped roots from those of sampled roots."""

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
    """A sparse matrix, [n, s], from values at sampled roots to values at all nodes.

    It is stored as q entries (row, column, weight). The weights of a node sum to one. A
    sampled root has a single entry: weight one for its own value.
    """

    node: Tensor
    """[q]: row index, the node whose value is estimated."""
    subgraph: Tensor
    """[q]: column index, the sampled subgraph whose value is used."""
    weight: Tensor
    """[q], float64: the weight of that value."""
    in_order: bool = False
    """Whether the entries are known to be sorted by connected component."""

    def at(self, entries: Tensor) -> Filling:
        """Return a matrix of these entries only, in this order; `in_order` is False."""
        return self._each(lambda part: part.index_select(0, entries))

    def to(self, device: torch.device | str) -> Filling:
        """Return this matrix on another device."""
        return replace(self._each(lambda part: part.to(device)), in_order=self.in_order)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Filling:
        return Filling(change(self.node), change(self.subgraph), change(self.weight))


@dataclass(frozen=True, eq=False, repr=False)
class SampledSubgraphs(RootedSubgraphs):
    """Sampled rooted subgraphs of a batch, with data that makes up for dropped ones.

    Sums over the subgraphs that contain a node are scaled by `scale`; encodings of
    dropped roots are estimated with `filling`.
    """

    held: Tensor = field(kw_only=True)
    """[n]: number of subgraphs that contain each node, before any is dropped."""
    covered: Tensor = field(kw_only=True)
    """[n]: number of sampled subgraphs that contain each node; at least one."""
    filling: Filling = field(kw_only=True)
    """The weights that estimate the value of every node from sampled roots."""

    def scale(self, dtype: torch.dtype) -> Tensor:
        """Return `held / covered`, [n], cached after the first call.

        A sum over the sampled subgraphs that contain a node, times this factor,
        estimates the sum over all subgraphs that contain it.
        """
        return self._once(f"scale {dtype}", lambda: self.held.to(dtype) / self.covered)

    def _group(self, axis: Axis) -> Groups:
        # Entries of `filling`, grouped by row ("taker") or by column ("giver").
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
    r"""Compute the weights that estimate values of all nodes from sampled roots.

    $\mathcal{U}_d$ is the set of nodes at distance $d$ from the nearest sampled root. A
    node takes the mean over its neighbours that are one step nearer:

    $$h_u = \text{Mean}\,\{h_v \mid v \in \mathcal{U}_{d-1},\ (u, v) \in \mathcal{E}\}
      \quad \text{for}\ d = 1, \dots, d_{\max},\ u \in \mathcal{U}_d.$$

    The means for all distances $d$ are multiplied out into one sparse matrix, so a
    layer of the network applies it in a single pass. Edge directions are ignored, and
    duplicate edges count once. A node without a path to a root has no entries.

    Args:
        edge_index: Directed edges, [2, e].
        num_nodes: Number of nodes, n.
        roots: The sampled roots, [s].
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
    """Estimate the values of all nodes from those of sampled roots.

    Args:
        values: Values of the sampled roots, [s, c].
        filling: The weights.
        num_nodes: Number of nodes, n.

    Returns:
        Values of all nodes, [n, c], summed in float32 or wider.
    """
    wide = values.float() if values.dtype.itemsize < 4 else values
    share = wide.index_select(0, filling.subgraph)
    share = share * filling.weight.to(wide.dtype)[:, None]
    known = wide.new_zeros(num_nodes, wide.size(1))
    return known.index_add(0, filling.node, share).to(values.dtype)


def _nearer_neighbors(
    edge_index: Tensor, num_nodes: int, roots: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the distance of each node to the nearest root, and nearer neighbours.

    Returns:
        The distances, [n], -1 where no path exists; then all pairs of neighbours
        (source, target) in which the source is one step nearer to a root.
    """
    both = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    pair = torch.unique(both[1] * num_nodes + both[0])
    size = max(num_nodes, 1)
    target, source = pair // size, pair % size
    layer = hops_to_root(torch.stack([source, target]), roots, num_nodes, num_nodes)
    nearer = (layer[source] == layer[target] - 1) & (layer[source] >= 0)
    pairs = nearer.nonzero().flatten()
    return layer, source.index_select(0, pairs), target.index_select(0, pairs)


def _next_layer(
    before: Filling, target: Tensor, source: Tensor, share: Tensor, num_subgraphs: int
) -> Filling:
    """Compute the weights of the nodes at distance d from those at distance d - 1.

    Args:
        before: Entries of the nodes at distance d - 1.
        target: Nodes at distance d, one entry per pair of neighbours.
        source: Their neighbours at distance d - 1.
        share: One over the number of these neighbours of the target.
        num_subgraphs: Number of sampled subgraphs, s.
    """
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

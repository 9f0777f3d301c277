"""Estimate the encodings of dropped roots from the encodings of sampled roots."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from gnnak.graphs.adjacency import hops_to_root, joined_nodes
from gnnak.graphs.fields import moved
from gnnak.graphs.ragged import counts_of, ragged_ranges
from gnnak.subgraphs.groups import Compact, GroupKey
from gnnak.subgraphs.rooted import Axis, RootedSubgraphs


@dataclass(frozen=True, eq=False)
class Filling(Compact):
    """A sparse matrix, [n, s], that estimates values of all nodes from sampled roots.

    The entries of row i are the weights of a mean over sampled roots, which estimates
    the value of node i. They sum to one. The row of a sampled root has a single entry.
    """

    node: Tensor
    """[entries]: the row of each entry, which is the node whose value is estimated."""
    subgraph: Tensor
    """[entries]: the column of each entry, which is the index of a sampled subgraph."""
    weight: Tensor
    """[entries], float64: the weight of the root in the mean that estimates `node`."""
    in_order: bool = False
    """True if the entries are sorted by connected component; False if unknown."""

    def at(self, entries: Tensor) -> Filling:
        node, subgraph = self.node[entries], self.subgraph[entries]
        return Filling(node, subgraph, self.weight[entries])

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Filling:
        return moved(self, device, non_blocking)


@dataclass(frozen=True, eq=False, repr=False)
class SampledSubgraphs(RootedSubgraphs):
    """The rooted subgraphs that SubgraphDrop has sampled from a batch.

    Sums over the sampled subgraphs that contain a node are multiplied by `scale`, to
    make up for dropped subgraphs. `filling` estimates the encodings of dropped roots.
    """

    held: Tensor = field(kw_only=True)
    """[n]: number of all subgraphs, sampled or dropped, that contain each node."""
    covered: Tensor = field(kw_only=True)
    """[n]: number of sampled subgraphs that contain each node; at least 1."""
    filling: Filling = field(kw_only=True)
    """Estimates the encodings of all nodes from those of the sampled roots."""

    def has_some_roots(self, num_nodes: int) -> bool:
        """Return False: layers compute states for all nodes, also for dropped roots."""
        return False

    def scale(self, dtype: torch.dtype) -> Tensor:
        """Return the factor for sums over sampled subgraphs, [n]: `held / covered`."""
        return self.once(Tensor, lambda: self.held.to(dtype) / self.covered, dtype)

    def _group_key(self, axis: Axis) -> GroupKey:
        # Group the entries of `filling` by row ("taker") or by column ("giver").
        if axis == "taker":
            return GroupKey(self.filling.node, self.held.numel())
        if axis == "giver":
            return GroupKey(self.filling.subgraph, self.num_subgraphs)
        return super()._group_key(axis)


def plan_filling(edge_index: Tensor, num_nodes: int, roots: Tensor) -> Filling:
    r"""Compute the matrix that estimates values of all nodes from sampled `roots`, [s].

    $$h_u = \text{Mean}\,\{h_v \mid v \in \mathcal{U}_{d-1},\ (u, v) \in \mathcal{E}\}
    \quad \text{for}\ d = 1, \dots, d_{\max},\ u \in \mathcal{U}_d.$$

    $\mathcal{U}_d$ is the set of nodes at distance $d$ from the nearest sampled root,
    and $\mathcal{U}_0$ are the sampled roots. Edge directions and duplicates are
    ignored. A node without a path to a sampled root has an empty row.
    """
    target, source = joined_nodes(edge_index, num_nodes)
    layer = hops_to_root(torch.stack([source, target]), roots, num_nodes, num_nodes)
    # The pairs of a node and a neighbour that is one step nearer to a sampled root.
    nearer = (layer[source] == layer[target] - 1) & (layer[source] >= 0)
    source, target = source[nearer], target[nearer]
    share = counts_of(target, num_nodes).double().reciprocal()
    node, subgraph = roots, torch.arange(roots.numel(), device=roots.device)
    parts = [Filling(node, subgraph, torch.ones_like(node, dtype=torch.double))]
    depth = int(layer.max()) if num_nodes else 0
    for distance in range(1, depth + 1):
        here = (layer[target] == distance).nonzero().flatten()
        into, outof = target[here], source[here]
        parts.append(_next_layer(parts[-1], into, outof, share[into], roots.numel()))
    entries = [(part.node, part.subgraph, part.weight) for part in parts]
    node, subgraph, weight = map(torch.cat, zip(*entries, strict=True))
    return Filling(node, subgraph, weight)


def fill(values: Tensor, filling: Filling, num_nodes: int) -> Tensor:
    """Estimate the values of all nodes, [n, c], from those of sampled roots, [s, c]."""
    wide = values.float() if values.dtype.itemsize < 4 else values
    share = wide.index_select(0, filling.subgraph)
    share = share * filling.weight.to(wide.dtype)[:, None]
    known = wide.new_zeros(num_nodes, wide.size(1))
    return known.index_add(0, filling.node, share).to(values.dtype)


def _next_layer(
    before: Filling, target: Tensor, source: Tensor, share: Tensor, num_subgraphs: int
) -> Filling:
    """From the `Filling` of nodes at distance d from roots, compute that for d + 1."""
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

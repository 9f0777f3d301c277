"""Values at kept roots, made into values at every node."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of
from gnnak.subgraphs.distances import hops_to_root
from gnnak.subgraphs.rooted import RootedSubgraphs


@dataclass(frozen=True, eq=False)
class FillStep:
    """How the nodes of one layer take their values from the layer before."""

    source: Tensor
    """[p]: a node one layer nearer to the kept roots."""
    target: Tensor
    """[p]: its neighbour in this layer."""
    weight: Tensor
    """[p], float64: one over the number of sources of the target."""

    def to(self, device: torch.device | str) -> FillStep:
        """Return this step on another device."""
        return FillStep(
            self.source.to(device), self.target.to(device), self.weight.to(device)
        )


@dataclass(frozen=True, eq=False, repr=False)
class SampledSubgraphs(RootedSubgraphs):
    """Some of a batch's rooted subgraphs, and what stands in for the others."""

    held: Tensor = field(kw_only=True)
    """[n]: how many of *all* subgraphs held each node."""
    covered: Tensor = field(kw_only=True)
    """[n]: how many of those that were kept hold it; at least one."""
    steps: tuple[FillStep, ...] = field(kw_only=True)
    """Layer after layer away from the kept roots, how values are filled in."""

    def to(self, device: torch.device | str) -> Self:
        """Return this record on another device."""
        return replace(
            super().to(device),
            held=self.held.to(device),
            covered=self.covered.to(device),
            steps=tuple(step.to(device) for step in self.steps),
        )


def fill_steps(
    edge_index: Tensor, num_nodes: int, roots: Tensor
) -> tuple[FillStep, ...]:
    r"""Plan how values spread from `roots` to all nodes, layer by layer.

    $\mathcal{U}_d$ holds the nodes at distance $d$ from the kept roots; a node in it
    takes the mean over its neighbours in $\mathcal{U}_{d-1}$. Edges count in both
    directions, parallel ones once. Nodes that no path joins to a root have no step.
    """
    both = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    pair = torch.unique(both[1] * num_nodes + both[0])
    size = max(num_nodes, 1)
    target, source = pair // size, pair % size
    layer = hops_to_root(torch.stack([source, target]), roots, num_nodes, num_nodes)
    nearer = layer[source] == layer[target] - 1
    nearer &= layer[source] >= 0
    source, target = source[nearer], target[nearer]
    depth = int(layer.max()) if num_nodes else 0
    steps = []
    for distance in range(1, depth + 1):
        here = layer[target] == distance
        into = target[here]
        weight = counts_of(into, num_nodes)[into].double().reciprocal()
        steps.append(FillStep(source[here], into, weight))
    return tuple(steps)


def fill(values: Tensor, steps: tuple[FillStep, ...]) -> Tensor:
    r"""Spread the rows of known nodes to all others, layer by layer.

    $$h_u = \text{Mean}\,\{h_v \mid v \in \mathcal{U}_{d-1},\ (u, v) \in \mathcal{E}\}
      \quad \text{for}\ d = 1, \dots, d_{\max},\ u \in \mathcal{U}_d$$

    Args:
        values: Rows of all nodes, [n, c], zero where not known.
        steps: From `fill_steps`.
    """
    for step in steps:
        share = values.index_select(0, step.source)
        share = share * step.weight.to(values.dtype)[:, None]
        values = values.index_add(0, step.target, share)
    return values

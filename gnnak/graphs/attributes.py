"""Further fields of many graphs, besides features and targets, as flat tensors.

A field is any named value of a PyG `Data`: positions, weights, masks, names and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from gnnak.graphs.ragged import pointers, ragged_ranges
from gnnak.graphs.store import GraphStore

FieldAxis = Literal["graphs", "nodes", "edges"]
"""What a field has one row for."""


@dataclass(frozen=True, eq=False)
class Attribute:
    """One tensor field of g graphs, concatenated."""

    value: Tensor
    """[r, ...]: the rows of all graphs, one graph after the other."""
    count: Tensor
    """[g], int64, on the CPU: number of rows of each graph."""
    axis: FieldAxis | None = None
    """What the field has one row for; None = the number of rows is arbitrary."""
    dim: int = 0
    """The dimension of the rows in a batch, as PyG's `Data.__cat_dim__` returns it."""
    step: Tensor | None = None
    """[g], int64, on the CPU: for indices, how many numbers each graph uses, as PyG's
    `Data.__inc__` returns it. In a batch, the indices of a graph are increased by the
    sum over the graphs before it. None = the field has no indices."""

    @cached_property
    def start(self) -> Tensor:
        """[g + 1], on the CPU: position of the first row of each graph."""
        return pointers(self.count)

    def of(self, graphs: Tensor) -> Tensor:
        """Return the field of a batch, as PyG's `Batch` has it.

        Args:
            graphs: Positions of the k graphs of the batch, on the CPU, [k].
        """
        device, count = self.value.device, self.count[graphs]
        graph, row = ragged_ranges(self.start[graphs], count)
        value = self.value.index_select(0, row.to(device, non_blocking=True))
        if self.step is not None:
            shift = pointers(self.step[graphs])[graph].to(device, non_blocking=True)
            value = value + shift.view(-1, *[1] * (value.dim() - 1)).to(value.dtype)
        return value.movedim(0, self.dim)


@dataclass(frozen=True, eq=False)
class Attributes:
    """All further fields of g graphs, by name."""

    tensors: Mapping[str, Attribute] = field(default_factory=dict)
    """The fields that are tensors or numbers."""
    objects: Mapping[str, list] = field(default_factory=dict)
    """The other fields, such as names, as lists with one value for each graph."""

    @property
    def aligned(self) -> dict[str, Attribute]:
        """The fields with one row for each node, edge or graph, without indices."""
        return {k: v for k, v in self.tensors.items() if is_aligned(v)}

    @property
    def irregular(self) -> list[str]:
        """The names of all other tensor fields, which cannot be padded."""
        return [k for k, v in self.tensors.items() if not is_aligned(v)]

    def rows(self, store: GraphStore, graphs: Tensor) -> dict[str, Tensor]:
        """Return the rows of all aligned fields of some graphs, by name.

        Args:
            store: The g graphs.
            graphs: Positions of the chosen graphs, on the CPU, [k].
        """
        chosen: dict[str, Tensor] = {}
        index: dict[FieldAxis, Tensor] = {}
        there = graphs.to(store.device, non_blocking=True)
        for name, attribute in self.aligned.items():
            axis = attribute.axis
            assert axis is not None
            if axis not in index:
                index[axis] = _rows(store, axis, graphs, there)
            chosen[name] = attribute.value.index_select(0, index[axis])
        return chosen

    def others(self, graphs: Tensor) -> dict[str, Any]:
        """Return the fields of a batch that are not aligned, by name.

        Args:
            graphs: Positions of the graphs of the batch, on the CPU, [k].
        """
        tensors = {name: self.tensors[name].of(graphs) for name in self.irregular}
        numbers = graphs.tolist() if self.objects else []
        lists = {k: [v[i] for i in numbers] for k, v in self.objects.items()}
        return tensors | lists

    def to(self, device: torch.device) -> Attributes:
        """Return these fields on another device."""
        moved = {
            name: replace(attribute, value=attribute.value.to(device))
            for name, attribute in self.tensors.items()
        }
        return replace(self, tensors=moved)


def is_aligned(attribute: Attribute) -> bool:
    """Return whether a field has one row for each node, edge or graph, no indices."""
    return attribute.axis is not None and attribute.step is None and not attribute.dim


def _rows(store: GraphStore, axis: FieldAxis, host: Tensor, there: Tensor) -> Tensor:
    """Return the positions of the rows of some graphs, on the store's device.

    Args:
        store: All graphs.
        axis: What there is one row for.
        host: Positions of the graphs, on the CPU.
        there: The same positions, on the store's device.
    """
    if axis == "graphs":
        return there
    nodes = axis == "nodes"
    start = store.node_ptr if nodes else store.edge_ptr
    count = store.num_nodes if nodes else store.num_edges
    total = int(store.counts[0 if nodes else 1, host].sum())
    return ragged_ranges(start[there], count[there], total)[1]

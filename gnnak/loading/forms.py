"""The padded form of a PyG batch, which a loader or a training step computes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnnak.graphs import GraphBatch
from gnnak.loading.items import Item
from gnnak.loading.padder import Padder
from gnnak.loading.prefetch import prefetching_paused
from gnnak.subgraphs.rooted import RootedSubgraphs

if TYPE_CHECKING:
    from torch_geometric.data import Batch

FORM = "_padded"
"""Name of the attribute of a PyG batch that refers to its `PaddedForm`, or to an
`Unpadded` if the loader could have padded the batch but did not. If a field of the
graphs cannot be padded, the attribute is a text that says so."""
STRUCTURE = ("edge_index", "batch", "ptr")
"""Fields that must not change, nor may the rooted subgraphs: a batch with other edges
cannot be padded."""
STORED = ("x", "edge_attr", "y")
"""Fields of a `GraphBatch` that may be replaced."""
TOO_SMALL = "this batch has fewer graphs than the full batches, or only one"
"""Why a small batch may have no padded form."""


@dataclass(frozen=True, eq=False)
class PaddedForm:
    """The padded form of a PyG batch, and the fields of the batch at that time."""

    item: Item
    """The padded batch."""
    build: Callable[[Item], Batch]
    """Returns a padded item as a PyG batch, which also has the attribute `REAL`."""
    fields: dict[str, tuple[Any, int, str | None]]
    """The fields of the PyG batch by name, when it was padded: the value, the version
    counter of a tensor (how often it was changed in place), and the axis that the field
    has rows on, such as "nodes"."""
    padder: Padder
    """Pads the batches of the loader."""

    def pad_to_largest(self) -> None:
        """Make the loader pad its next few batches to the largest shape.

        A step is captured for this shape first, since captures for other shapes share
        its memory.
        """
        # A prefetching thread may use `shapes`, which is not safe for two threads.
        with prefetching_paused():
            self.padder.shapes.pad_to_largest()

    def __reduce__(self) -> tuple[type, tuple]:
        """Copy or pickle this object as None: copies of a batch are not padded."""
        return type(None), ()

    def kinds(self) -> list[tuple[str, torch.dtype, torch.Size]]:
        """Return the name, the dtype and the shape of a row, for each tensor field."""
        given = self.item.batch
        fields = {"x": given.x, "edge_attr": given.edge_attr, "y": given.y}
        tensors = {k: v for k, v in (fields | self.item.extra).items() if v is not None}
        return [(k, v.dtype, v.shape[1:]) for k, v in sorted(tensors.items())]


class Unpadded:
    """What is needed to compute the padded form of a PyG batch.

    This object does not refer to tensors with a row per node, edge or graph, so that
    their memory can be freed when the batch is moved to another device. Deep copies and
    pickles of the batch cannot be padded.

    Args:
        batch: The batch, as the loader yields it.
        axes: For each field of the batch, the axis that it has rows on, such as
            "nodes"; None if it cannot be padded.
        build: Returns a padded item as a PyG batch.
        padder: Pads the batches of the loader.
    """

    def __init__(
        self,
        batch: Batch,
        axes: Mapping[str, str | None],
        build: Callable[[Item], Batch],
        padder: Padder,
    ) -> None:
        self.axes, self.build, self.padder = axes, build, padder
        fields = batch._store._mapping
        # For each field of the structure, a weak reference, and the version counter.
        self._structure = {
            name: (weakref.ref(fields[name]), version_of(fields[name]))
            for name in axes
            if is_structure(name, fields[name])
        }
        self._others = {
            name: fields[name]
            for name, axis in axes.items()
            if axis is None and name not in self._structure
        }

    def with_item(self, batch: Batch, item: Item) -> PaddedForm:
        """Return the padded form of the batch.

        Args:
            batch: The batch.
            item: The batch with padding.
        """
        now = batch._store._mapping
        fields = {
            name: (now[name], version_of(now[name]), axis)
            for name, axis in self.axes.items()
        }
        return PaddedForm(item, self.build, fields, self.padder)

    def pad(self, batch: Batch) -> PaddedForm | str:
        """Return the padded form of the batch, or a text that says why there is none.

        Args:
            batch: The batch, whose features and targets may have changed.
        """
        now = dict(batch._store.items())
        for name, axis in self.axes.items():
            if name not in now:
                return f"the field {name!r} of the batch was removed"
            if not self._can_pad(name, axis, now):
                return describe_obstacle(name, now[name])
        targets = "nodes" if self.padder.node_targets else "graphs"
        usual = dict(zip(STORED, ("nodes", "edges", targets), strict=True))
        rows = {k: (axis, now[k]) for k, axis in self.axes.items() if axis is not None}
        extra = {k: row for k, row in rows.items() if row[0] != usual.get(k)}
        x, edge_attr, y = (None if k in extra else now.get(k) for k in STORED)
        edges = now.get("edge_index", now["batch"].new_zeros(2, 0))
        graphs = GraphBatch(x, edges, edge_attr, y, now["batch"], now["ptr"])
        subgraphs = now["subgraphs"] if "subgraphs" in self._structure else None
        item = self.padder.pad_one(graphs, subgraphs, extra)
        return TOO_SMALL if item is None else self.with_item(batch, item)

    def _can_pad(self, name: str, axis: str | None, now: Mapping[str, Any]) -> bool:
        """Return whether a field can be padded, given the present fields by name."""
        value = now[name]
        if name in self._structure:
            before, version = self._structure[name]
            return before() is value and version == version_of(value)
        if axis is None:
            return self._others[name] is value
        rows = {"graphs": now["ptr"].numel() - 1, "nodes": now["batch"].numel()}
        if axis == "edges":
            rows["edges"] = now["edge_index"].size(1) if "edge_index" in now else 0
        return can_pad(value, rows[axis], now["batch"].device)

    def __reduce__(self) -> tuple[type, tuple]:
        """Copy or pickle this object as None."""
        return type(None), ()


def is_structure(name: str, value: object) -> bool:
    """Return whether a field of a batch is its edges, its graphs or its subgraphs."""
    return name in STRUCTURE or isinstance(value, RootedSubgraphs)


def can_pad(value: object, rows: int, device: torch.device) -> bool:
    """Return whether a value is a dense tensor with `rows` rows and without gradients.

    Args:
        value: The value of a field of a batch.
        rows: Number of rows of the field, when the loader yielded the batch.
        device: The device of the batch.
    """
    if not isinstance(value, Tensor) or not value.dim() or value.requires_grad:
        return False
    dense = value.layout == torch.strided and value.device == device
    return dense and value.size(0) == rows


def describe_obstacle(name: str, value: object) -> str:
    """Return a text that says why a field of a batch cannot be padded."""
    gradient = isinstance(value, Tensor) and value.requires_grad
    reason = "requires a gradient" if gradient else "was added, replaced or changed"
    return f"the field {name!r} of the batch {reason}"


def version_of(value: object) -> int:
    """Return how often a tensor was changed in place; 0 for anything else."""
    tensor = isinstance(value, Tensor) and not value.is_inference()
    return value._version if tensor else 0  # type: ignore[attr-defined]


def padded_form(batch: Any) -> PaddedForm | str:
    """Return the padded form of a PyG batch, with the present fields of the batch.

    A batch that the loader has not padded is padded now. A field that was added,
    replaced or changed in place since the batch was padded is padded now, with zeros.

    Args:
        batch: A batch of a `GraphLoader`, or anything else.

    Returns:
        The padded form, or a text that says why there is none.
    """
    form: Any = getattr(batch, "__dict__", {}).get(FORM)
    if isinstance(form, Unpadded | PaddedForm):
        form.padder.demand.use()
    if isinstance(form, Unpadded):
        form = form.pad(batch)
        if isinstance(form, PaddedForm):
            batch.__dict__[FORM] = form
    if isinstance(form, str):
        return form
    if not isinstance(form, PaddedForm):
        return (
            "this batch has no padded form; use batches of a GraphLoader on the GPU, "
            "without pad=False and without a Budget"
        )
    now = dict(batch._store.items())
    given, extra = form.item.batch, dict(form.item.extra)
    for name in form.fields.keys() - now.keys():
        return f"the field {name!r} of the batch was removed"
    for name, value in now.items():
        before, version, axis = form.fields.get(name, (None, 0, None))
        same = value is before and version == version_of(value)
        if same and not getattr(value, "requires_grad", False):
            continue
        padded = None
        if not is_structure(name, before):
            padded = _pad(value, axis or _axis_of(value, form.item), form.item)
        if padded is None:
            return describe_obstacle(name, value)
        if name in STORED and name not in extra:
            given = replace(given, **{name: padded})  # type: ignore[arg-type]
        else:
            extra[name] = padded
    return replace(form, item=replace(form.item, batch=given, extra=extra))


def _axis_of(value: object, item: Item) -> str | None:
    """Return the axis of a field, by its number of rows; None if it is not unique."""
    assert item.sizes is not None
    if not isinstance(value, Tensor) or not value.dim():
        return None
    names = [n for n in ("graphs", "nodes", "edges") if item.sizes[n] == value.size(0)]
    return names[0] if len(names) == 1 else None


def _pad(value: object, axis: str | None, item: Item) -> Tensor | None:
    """Return a field with zeros as padding; None if the field cannot be padded."""
    assert item.sizes is not None
    if axis is None or not can_pad(value, item.sizes[axis], item.batch.device):
        return None
    assert isinstance(value, Tensor)
    padded = value.new_zeros(getattr(item.shape, axis), *value.shape[1:])
    padded[: value.size(0)] = value
    return padded

"""Convert assembled batches to PyG batches, which may have a padded form."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnnak.graphs import GraphBatch
from gnnak.graphs.ragged import pointers
from gnnak.graphs.readers.pyg import FieldStore
from gnnak.graphs.real import REAL
from gnnak.loading.items import Item
from gnnak.loading.padder import Padder
from gnnak.loading.prefetch import prefetching_paused
from gnnak.subgraphs.attached import attach
from gnnak.subgraphs.extractors import Extractor
from gnnak.subgraphs.rooted import RootedSubgraphs

if TYPE_CHECKING:
    from torch_geometric.data import Batch

FORM = "_padded"
"""Attribute of a PyG batch: its `PaddedForm`; an `Unpadded`, which can compute this
form; or a text that says why the batch cannot be padded."""
STRUCTURE = ("edge_index", "batch", "ptr")
"""A batch cannot be padded if one of these fields, or `subgraphs`, was changed."""
STORED = ("x", "edge_attr", "y")
"""Fields of a `GraphBatch` that users may replace in a PyG batch."""
TOO_SMALL = "this batch has fewer graphs than the full batches, or only one"
UNEVEN = (
    "the field {!r} has neither one row per graph, nor per node, nor per edge, so "
    "batches cannot be padded"
)


class BatchMaker:
    def __init__(
        self,
        graphs: FieldStore,
        extractor: Extractor | None,
        padder: Padder | None,
        wants_padding: bool = True,
    ) -> None:
        from torch_geometric.data import Batch, Data

        self.graphs, self.extractor, self.padder = graphs, extractor, padder
        # Why batches cannot be padded, if a field of the graphs is the reason.
        self._obstacle = None
        if graphs.attributes.irregular and wants_padding:
            self._obstacle = UNEVEN.format(graphs.attributes.irregular[0])
        # PyG takes long to construct a batch, so construct one, and copy it.
        self._empty = Batch(_base_cls=graphs.kind or Data)

    def make(self, item: Item, padded: Item | None, edges: Tensor | None) -> Batch:
        """Return a PyG batch whose attribute `FORM` tells how the batch is padded."""
        batch = self.build(item, edges)
        if self.padder is None:
            if self._obstacle is not None:
                batch.__dict__[FORM] = self._obstacle
            return batch
        axes = {name: self._axis(name) for name in batch._store._mapping}
        form = Unpadded(batch, axes, self.build, self.padder)
        batch.__dict__[FORM] = form
        if padded is not None:
            batch.__dict__[FORM] = form.with_item(batch, padded)
        return batch

    def build(self, item: Item, edges: Tensor | None = None) -> Batch:
        graphs, given = self.graphs, item.batch
        batch = copy.copy(self._empty)
        fields: dict[str, Any] = {
            "x": given.x,
            "edge_index": given.edge_index if graphs.has_edges else None,
            "edge_attr": given.edge_attr,
            "y": given.y,
            **item.extra,
            "num_nodes": given.num_nodes if graphs.has_counts else None,
            "batch": given.batch,
            "ptr": given.ptr,
        }
        if item.subgraphs is not None:
            fields["subgraphs"] = item.subgraphs
        # PyG takes long to assign a field of a batch, so all are assigned at once.
        present = {k: v for k, v in fields.items() if v is not None}
        batch._store._mapping.update(present)
        batch._num_graphs = given.num_graphs
        if given.real is not None:
            batch.__dict__[REAL] = given.real
        if item.positions is not None:
            self._add_slices(batch, item.positions)
        if item.subgraphs is not None and self.extractor is not None:
            attach(given.edge_index, item.subgraphs, self.extractor, edges)
        return batch

    def _axis(self, name: str) -> str | None:
        if name == "y" and self.graphs.store.y is not None:
            return "nodes" if self.graphs.store.node_targets else "graphs"
        attribute = self.graphs.attributes.tensors.get(name)
        if attribute is not None:
            return attribute.axis
        return {"x": "nodes", "edge_attr": "edges"}.get(name)

    def _add_slices(self, batch: Batch, numbers: list[int]) -> None:
        """Set the mappings by which `Batch.to_data_list` splits fields into graphs."""
        store, attributes = self.graphs.store, self.graphs.attributes
        if self.graphs.has_counts:
            positions = torch.tensor(numbers, device="cpu")
            batch._num_nodes = store.counts[0, positions].tolist()

        def slices(name: str) -> Tensor:
            """Return the row pointer that divides the rows of a field by graph."""
            positions = torch.tensor(numbers, device="cpu")
            attribute = attributes.tensors.get(name)
            if attribute is not None:
                return pointers(attribute.count[positions])
            axis = "edges" if name == "edge_index" else self._axis(name)
            if axis not in ("nodes", "edges"):
                return pointers(torch.ones_like(positions))
            return pointers(store.counts[0 if axis == "nodes" else 1, positions])

        def shifts(name: str) -> Tensor | None:
            """Return, for each graph, the number that batching added to its indices."""
            positions = torch.tensor(numbers, device="cpu")
            attribute = attributes.tensors.get(name)
            step = None if attribute is None else attribute.step
            if name == "edge_index":
                step = store.counts[0]
            if name in attributes.objects:
                return None
            if step is None:
                return torch.zeros_like(positions)
            return pointers(step[positions])[:-1]

        not_split = ["batch", "ptr", "num_nodes"]
        not_split += ["subgraphs"] if self.extractor is not None else []
        names = [name for name in batch._store._mapping if name not in not_split]
        batch._slice_dict = _Lazy(names, slices)
        batch._inc_dict = _Lazy(names, shifts)


class _Lazy(Mapping):
    """A mapping that computes a value whenever it is read; it is pickled as a dict."""

    def __init__(self, names: list[str], compute: Callable[[str], Any]) -> None:
        self.names, self.compute = names, compute

    def __reduce__(self) -> tuple[type, tuple]:
        return dict, (dict(self),)

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise KeyError(name)
        return self.compute(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class PaddedForm:
    """A PyG batch with padding, and its unpadded fields, to notice when they change."""

    item: Item
    build: Callable[[Item], Batch]
    """Converts a padded item to a PyG batch."""
    fields: dict[str, tuple[Any, int, str | None]]
    """Maps a field of the batch to its value, version counter (number of in-place
    changes) and axis, such as "nodes", all at the time of padding."""
    padder: Padder
    is_copy: bool = False
    """Whether padded tensors are copies. If not, the unpadded tensors of the batch are
    views of the padded tensors."""

    def pad_to_largest(self) -> None:
        """Pad the next batches to the largest shape, so that it is captured first."""
        # A prefetching thread may use `shapes`, which is not safe for two threads.
        with prefetching_paused():
            self.padder.shapes.pad_to_largest()

    def __reduce__(self) -> tuple[type, tuple]:
        """Copy or pickle this object as None: a copied batch has no padded form."""
        return type(None), ()

    def update(self, name: str, value: object) -> None:
        """Copy a field to the padded batch again, in case its `.data` was changed."""
        given = self.item.batch
        padded = self.item.extra.get(name, getattr(given, name, None))
        if not self.is_copy or padded is None or not isinstance(value, Tensor):
            return
        if name in STRUCTURE:
            padded[..., : value.size(-1)] = value
        else:
            padded[: value.size(0)] = value

    def kinds(self) -> list[tuple[str, torch.dtype, torch.Size]]:
        given = self.item.batch
        fields = {"x": given.x, "edge_attr": given.edge_attr, "y": given.y}
        tensors = {k: v for k, v in (fields | self.item.extra).items() if v is not None}
        return [(k, v.dtype, v.shape[1:]) for k, v in sorted(tensors.items())]


class Unpadded:
    """Computes the padded form of an unpadded PyG batch, once this form is needed.

    It does not keep the batch's tensors of nodes, edges and graphs in memory. `axes`
    maps each field to the axis of its rows, or to None if the field cannot be padded.
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
            name: (weakref.ref(fields[name]), _version_of(fields[name]))
            for name in axes
            if is_structure(name, fields[name])
        }
        self._others = {
            name: fields[name]
            for name, axis in axes.items()
            if axis is None and name not in self._structure
        }

    def with_item(self, batch: Batch, item: Item, is_copy: bool = False) -> PaddedForm:
        now = batch._store._mapping
        fields = {
            name: (now[name], _version_of(now[name]), axis)
            for name, axis in self.axes.items()
        }
        return PaddedForm(item, self.build, fields, self.padder, is_copy)

    def pad(self, batch: Batch) -> PaddedForm | str:
        now = dict(batch._store.items())
        for name, axis in self.axes.items():
            if name not in now:
                return f"the field {name!r} of the batch was removed"
            if not self._can_pad(name, axis, now):
                return _describe_obstacle(name, now[name])
        targets = "nodes" if self.padder.node_targets else "graphs"
        usual = dict(zip(STORED, ("nodes", "edges", targets), strict=True))
        rows = {k: (axis, now[k]) for k, axis in self.axes.items() if axis is not None}
        extra = {k: row for k, row in rows.items() if row[0] != usual.get(k)}
        x, edge_attr, y = (None if k in extra else now.get(k) for k in STORED)
        edges = now.get("edge_index", now["batch"].new_zeros(2, 0))
        graphs = GraphBatch(x, edges, edge_attr, y, now["batch"], now["ptr"])
        subgraphs = now["subgraphs"] if "subgraphs" in self._structure else None
        item = self.padder.pad_one(graphs, subgraphs, extra)
        return TOO_SMALL if item is None else self.with_item(batch, item, True)

    def _can_pad(self, name: str, axis: str | None, now: Mapping[str, Any]) -> bool:
        value = now[name]
        if name in self._structure:
            before, version = self._structure[name]
            return before() is value and version == _version_of(value)
        if axis is None:
            return self._others[name] is value
        rows = {"graphs": now["ptr"].numel() - 1, "nodes": now["batch"].numel()}
        if axis == "edges":
            rows["edges"] = now["edge_index"].size(1) if "edge_index" in now else 0
        return _is_plain(value, rows[axis], now["batch"].device)

    def __reduce__(self) -> tuple[type, tuple]:
        """Copy or pickle this object as None."""
        return type(None), ()


def is_structure(name: str, value: object) -> bool:
    return name in STRUCTURE or isinstance(value, RootedSubgraphs)


def padded_form(batch: Any) -> PaddedForm | str:
    """Return the padded form of a PyG batch, or a text that says why there is none."""
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
        same = value is before and version == _version_of(value)
        if same and not getattr(value, "requires_grad", False):
            form.update(name, value)
            continue
        padded = None
        if not is_structure(name, before):
            padded = _pad(value, axis or _axis_of(value, form.item), form.item)
        if padded is None:
            return _describe_obstacle(name, value)
        if name in STORED and name not in extra:
            given = replace(given, **{name: padded})  # type: ignore[arg-type]
        else:
            extra[name] = padded
    return replace(form, item=replace(form.item, batch=given, extra=extra))


def _axis_of(value: object, item: Item) -> str | None:
    """Return the only axis with as many rows as `value`; None if none or several."""
    assert item.sizes is not None
    if not isinstance(value, Tensor) or not value.dim():
        return None
    names = [n for n in ("graphs", "nodes", "edges") if item.sizes[n] == value.size(0)]
    return names[0] if len(names) == 1 else None


def _pad(value: object, axis: str | None, item: Item) -> Tensor | None:
    assert item.sizes is not None
    if axis is None or not _is_plain(value, item.sizes[axis], item.batch.device):
        return None
    assert isinstance(value, Tensor)
    padded = value.new_zeros(getattr(item.shape, axis), *value.shape[1:])
    padded[: value.size(0)] = value
    return padded


def _is_plain(value: object, rows: int, device: torch.device) -> bool:
    if not isinstance(value, Tensor) or not value.dim() or value.requires_grad:
        return False
    dense = value.layout == torch.strided and value.device == device
    return dense and value.size(0) == rows


def _describe_obstacle(name: str, value: object) -> str:
    gradient = isinstance(value, Tensor) and value.requires_grad
    reason = "requires a gradient" if gradient else "was added, replaced or changed"
    return f"the field {name!r} of the batch {reason}"


def _version_of(value: object) -> int:
    tensor = isinstance(value, Tensor) and not value.is_inference()
    return value._version if tensor else 0  # type: ignore[attr-defined]

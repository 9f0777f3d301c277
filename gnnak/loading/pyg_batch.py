"""Convert assembled batches to PyG batches, and look up the padded form of one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnnak.graphs.ragged import pointers
from gnnak.graphs.readers.pyg_fields import FieldStore
from gnnak.loading.assembler import Assembled
from gnnak.loading.demand import Demand
from gnnak.loading.items import Item
from gnnak.loading.shapes import Shapes
from gnnak.subgraphs.attached import attach
from gnnak.subgraphs.extractors import Extractor

if TYPE_CHECKING:
    from torch_geometric.data import Batch

FORM = "_padded"
"""Name of the attribute of a PyG batch that refers to its padded form, or to a `Demand`
if the loader could have padded the batch but did not."""


@dataclass(frozen=True, eq=False)
class PaddedForm:
    """The padded form of a PyG batch, and the fields of the batch as it was yielded."""

    item: Item
    """The padded batch."""
    build: Callable[[Item], Batch]
    """Returns a padded item as a PyG batch, which also has the field `real`."""
    fields: dict[str, tuple[Any, int, str | None]]
    """The fields of the PyG batch by name, as the loader yielded it: the value, the
    version counter of a tensor (how often it was changed in place), and the axis that
    the field has rows on, such as "nodes"."""
    pad_to_largest: Callable[[], None]
    """Makes the loader pad its next few batches to the largest shape. A step is
    captured for this shape first, since captures for other shapes share its memory."""
    demand: Demand
    """Records that the padded form is used."""

    def kinds(self) -> list[tuple[str, torch.dtype, torch.Size]]:
        """Return the name, the dtype and the shape of a row, for each tensor field."""
        given = self.item.batch
        fields = {"x": given.x, "edge_attr": given.edge_attr, "y": given.y}
        tensors = {k: v for k, v in (fields | self.item.extra).items() if v is not None}
        return [(k, v.dtype, v.shape[1:]) for k, v in sorted(tensors.items())]


class BatchMaker:
    """Converts assembled batches (`Item`s) to PyG batches.

    Args:
        graphs: All graphs, from which the items were assembled.
        extractor: The extractor of the items' rooted subgraphs; None = items have none.
        shapes: The shapes that items are padded to; None = items are not padded.
        demand: Records that padded forms are used; None = items are not padded.
    """

    def __init__(
        self,
        graphs: FieldStore,
        extractor: Extractor | None,
        shapes: Shapes | None,
        demand: Demand | None,
    ) -> None:
        self.graphs, self.extractor = graphs, extractor
        self.shapes, self.demand = shapes, demand
        from torch_geometric.data import Batch, Data

        # PyG takes long to construct a batch, so construct one, and copy it.
        self._empty = Batch(_base_cls=graphs.kind or Data)

    def __call__(self, assembled: Assembled) -> Batch:
        """Return a PyG batch; it refers to its padded form, if there is one."""
        batch = self.build(assembled.item)
        if self.demand is None or self.shapes is None:
            return batch
        batch.__dict__[FORM] = self.demand
        if assembled.padded is not None:
            fields = {
                name: (value, _version(value), self._axis(name))
                for name, value in batch._store.items()
            }
            largest = self.shapes.pad_to_largest
            given = (assembled.padded, self.build, fields, largest, self.demand)
            batch.__dict__[FORM] = PaddedForm(*given)
        return batch

    def build(self, item: Item) -> Batch:
        """Return an item, padded or not, as a PyG batch."""
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
            "subgraphs": item.subgraphs,
            "real": given.real,
        }
        for name, value in fields.items():
            if value is not None:
                batch._store[name] = value
        batch._num_graphs = given.num_graphs
        if item.positions is not None:
            self._add_slices(batch, torch.tensor(item.positions))
        if item.subgraphs is not None and self.extractor is not None:
            attach(given.edge_index, item.subgraphs, self.extractor)
        return batch

    def _axis(self, name: str) -> str | None:
        """Return the axis that a field has rows on; None if it cannot be padded."""
        if name == "y" and self.graphs.store.y is not None:
            return "nodes" if self.graphs.store.node_targets else "graphs"
        attribute = self.graphs.attributes.tensors.get(name)
        if attribute is not None:
            return attribute.axis
        return {"x": "nodes", "edge_attr": "edges"}.get(name)

    def _add_slices(self, batch: Batch, positions: Tensor) -> None:
        """Set the attributes of a batch that PyG's `Batch.to_data_list` reads.

        Their values are computed when they are read.

        Args:
            batch: The batch.
            positions: Positions of the batch's graphs in the store.
        """
        store, attributes = self.graphs.store, self.graphs.attributes
        if self.graphs.has_counts:
            batch._num_nodes = store.counts[0, positions].tolist()
        ones = torch.ones_like(positions)
        counts = {"nodes": store.counts[0], "edges": store.counts[1]}

        def slices(name: str) -> Tensor:
            """Return where the rows of each graph start in a field."""
            attribute = attributes.tensors.get(name)
            if attribute is not None:
                return pointers(attribute.count[positions])
            axis = "edges" if name == "edge_index" else self._axis(name)
            return pointers(counts[axis][positions] if axis in counts else ones)

        def shifts(name: str) -> Tensor | None:
            """Return the number that was added to each graph's indices in a field."""
            attribute = attributes.tensors.get(name)
            step = None if attribute is None else attribute.step
            if name == "edge_index":
                step = store.counts[0]
            if name in attributes.objects:
                return None
            return torch.zeros_like(ones) if step is None else pointers(step[positions])

        not_split = ("batch", "ptr", "subgraphs", "num_nodes")
        names = [name for name in batch._store if name not in not_split]
        batch._slice_dict = _Lazy(names, slices)
        batch._inc_dict = _Lazy(names, shifts)


class _Lazy(Mapping):
    """A mapping that computes a value whenever it is read.

    Args:
        names: The keys.
        compute: Returns the value of a key.
    """

    def __init__(self, names: list[str], compute: Callable[[str], Any]) -> None:
        self.names, self.compute = names, compute

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise KeyError(name)
        return self.compute(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def padded_form(batch: object) -> PaddedForm | str:
    """Return the padded form of a PyG batch, with the present fields of the batch.

    A field that was added, replaced or changed in place since the loader yielded the
    batch is padded now, with zeros.

    Args:
        batch: A batch of a `GraphLoader`, or anything else.

    Returns:
        The padded form, or a text that says why there is none.
    """
    form = getattr(batch, "__dict__", {}).get(FORM)
    if isinstance(form, Demand):
        form.use()
        return (
            "this batch has no padded form, since it is not full or since the batches "
            "before it were used without a TrainingStep"
        )
    if not isinstance(form, PaddedForm):
        return "only full batches of a GraphLoader that pads have a padded form"
    form.demand.use()
    now = dict(batch._store.items())  # type: ignore[attr-defined]
    given, extra = form.item.batch, dict(form.item.extra)
    for name in form.fields.keys() - now.keys():
        return f"the field {name!r} of the batch was removed"
    for name, value in now.items():
        before, version, axis = form.fields.get(name, (None, 0, None))
        if value is before and version == _version(value):
            continue
        padded = _pad(value, axis or _axis_of(value, form.item), form.item)
        if padded is None:
            return f"the field {name!r} of the batch was replaced"
        if name in ("x", "edge_attr", "y"):
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
    if not isinstance(value, Tensor) or axis is None or not value.dim():
        return None
    if value.size(0) != item.sizes[axis] or value.requires_grad:
        return None
    padded = value.new_zeros(getattr(item.shape, axis), *value.shape[1:])
    padded[: value.size(0)] = value
    return padded


def _version(value: object) -> int:
    """Return how often a tensor was changed in place; 0 for anything else."""
    tensor = isinstance(value, Tensor) and not value.is_inference()
    return value._version if tensor else 0  # type: ignore[attr-defined]

"""Convert assembled batches to PyG batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnnak.graphs.ragged import pointers
from gnnak.graphs.readers.pyg_fields import FieldStore
from gnnak.graphs.real import REAL
from gnnak.loading.assembler import Assembled
from gnnak.loading.forms import FORM, Unpadded
from gnnak.loading.items import Item
from gnnak.loading.padder import Padder
from gnnak.subgraphs.attached import attach
from gnnak.subgraphs.extractors import Extractor

if TYPE_CHECKING:
    from torch_geometric.data import Batch

UNEVEN = (
    "the field {!r} has neither one row per graph, nor per node, nor per edge, so "
    "batches cannot be padded"
)
"""Says which field is the reason that batches have no padded form."""


class BatchMaker:
    """Converts assembled batches (`Item`s) to PyG batches.

    Args:
        graphs: All graphs, from which the items were assembled.
        extractor: The extractor of the items' rooted subgraphs; None = items have none.
        padder: Pads items that were assembled without padding when their padded form is
            needed; None = batches have no padded form.
        wants_padding: Whether batches would have a padded form if all fields of the
            graphs could be padded.
    """

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

    def __call__(self, assembled: Assembled) -> Batch:
        """Return a PyG batch, which refers to its padded form if the loader pads."""
        batch = self.build(assembled.item)
        if self.padder is None:
            if self._obstacle is not None:
                batch.__dict__[FORM] = self._obstacle
            return batch
        axes = {name: self._axis(name) for name in batch._store._mapping}
        form = Unpadded(batch, axes, self.build, self.padder)
        batch.__dict__[FORM] = form
        if assembled.padded is not None:
            batch.__dict__[FORM] = form.with_item(batch, assembled.padded)
        return batch

    def build(self, item: Item) -> Batch:
        """Convert an assembled batch, with or without padding, to a PyG `Batch`."""
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

    def _add_slices(self, batch: Batch, numbers: list[int]) -> None:
        """Set the attributes of a batch that PyG's `Batch.to_data_list` reads.

        Their values are computed when they are read.

        Args:
            batch: The batch.
            numbers: Positions of the batch's graphs in the store.
        """
        store, attributes = self.graphs.store, self.graphs.attributes
        if self.graphs.has_counts:
            positions = torch.tensor(numbers, device="cpu")
            batch._num_nodes = store.counts[0, positions].tolist()

        def slices(name: str) -> Tensor:
            """Return where the rows of each graph start in a field."""
            positions = torch.tensor(numbers, device="cpu")
            attribute = attributes.tensors.get(name)
            if attribute is not None:
                return pointers(attribute.count[positions])
            axis = "edges" if name == "edge_index" else self._axis(name)
            if axis not in ("nodes", "edges"):
                return pointers(torch.ones_like(positions))
            return pointers(store.counts[0 if axis == "nodes" else 1, positions])

        def shifts(name: str) -> Tensor | None:
            """Return the number that was added to each graph's indices in a field."""
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
    """A mapping that computes a value whenever it is read.

    Args:
        names: The keys.
        compute: Returns the value of a key.
    """

    def __init__(self, names: list[str], compute: Callable[[str], Any]) -> None:
        self.names, self.compute = names, compute

    def __reduce__(self) -> tuple[type, tuple]:
        """Copy or pickle this mapping as a dict."""
        return dict, (dict(self),)

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise KeyError(name)
        return self.compute(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

"""Convert PyG `Data` objects to flat tensors without changing or dropping a field."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs.attributes import Attributes, FieldAxis, is_aligned
from gnnak.graphs.fields import check_alike
from gnnak.graphs.readers.pyg_checks import (
    as_num_nodes,
    check_has_values,
    check_is_graph,
    check_is_list,
)
from gnnak.graphs.readers.pyg_values import (
    check_objects,
    check_shifts,
    concatenate_field,
    is_numeric,
)
from gnnak.graphs.store import GraphStore
from gnnak.wording import kind_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

STORED: dict[str, tuple[FieldAxis, ...]] = {
    "x": ("nodes",),
    "edge_attr": ("edges",),
    "y": ("graphs", "nodes"),
}
"""The fields that a `GraphStore` has, and what they may have one row for."""
NOTED = {"_num_nodes"}
"""Private fields of PyG: the numbers of nodes of the graphs of a batch."""
MADE = {"edge_index", "num_nodes", "batch", "ptr"} | NOTED
"""The fields that are converted in their own way, or made for each batch."""


@dataclass(frozen=True, eq=False)
class FieldStore:
    """Many graphs with all their fields, concatenated into a few tensors."""

    store: GraphStore
    """The graphs, with `x`, `edge_attr` and `y` where these have their usual rows."""
    attributes: Attributes = field(default_factory=Attributes)
    """All other fields."""
    kind: type | None = None
    """The class of the PyG graphs; None = `torch_geometric.data.Data`."""
    has_edges: bool = True
    """Whether the graphs have a field `edge_index`."""
    has_counts: bool = False
    """Whether the graphs have a field `num_nodes`."""

    def to(self, device: torch.device) -> FieldStore:
        """Return these graphs with all fields on a device.

        Fields may be on another device than `edge_index`: numbers are on the CPU.
        """
        fields = [getattr(self.store, name) for name in ("edge_index", *STORED)]
        fields += [each.value for each in self.attributes.tensors.values()]
        if all(value is None or value.device == device for value in fields):
            return self
        moved = self.store.to(device), self.attributes.to(device)
        return FieldStore(*moved, self.kind, self.has_edges, self.has_counts)


def read_fields(graphs: Iterable[Data]) -> FieldStore:
    """Concatenate PyG graphs, with all their fields.

    Args:
        graphs: A list or PyG `Dataset` of at least one graph. All graphs have the same
            fields; a tensor field has the same dtype and, except for the number of
            rows, the same shape in all graphs.

    Raises:
        GraphError: If a graph is malformed, or its fields differ from those of the
            first graph; the message names the graph and the field.
    """
    data = _checked(graphs)
    # Counts are on the CPU, also if a user has set another default device.
    counts = [_num_nodes(number, each) for number, each in enumerate(data)]
    sizes = torch.tensor(counts, device="cpu")
    has_edges = "edge_index" in data[0]
    edge_index, num_edges = (_edges if has_edges else _no_edges)(data, sizes)
    given: dict[str, Any] = {"node_targets": False}
    tensors, objects = {}, {}
    for name in sorted(set(data[0].keys()) - MADE):
        values = [each[name] for each in data]
        if is_numeric(values[0]):
            attribute = concatenate_field(name, values, data, sizes, num_edges)
            if is_aligned(attribute) and attribute.axis in STORED.get(name, ()):
                given[name] = attribute.value
                given["node_targets"] |= name == "y" and attribute.axis == "nodes"
            else:
                tensors[name] = attribute
        else:
            objects[name] = check_objects(name, values)
    store = GraphStore(
        sizes.to(edge_index.device),
        num_edges.to(edge_index.device),
        edge_index,
        **given,
    )
    attributes = Attributes(tensors, objects)
    has_counts = "num_nodes" in data[0]
    return FieldStore(store, attributes, type(data[0]), has_edges, has_counts)


def _checked(graphs: Iterable[Data]) -> list[Data]:
    """Return the graphs as a list; raise `GraphError` if their fields differ."""
    check_is_list(graphs)
    try:
        data = list(graphs)
    except TypeError as error:
        kind = type(graphs).__name__
        raise GraphError(f"this {kind} is no list of PyG Data objects.") from error
    if not data:
        raise GraphError("there are no graphs; give at least one.")
    for number, each in enumerate(data):
        check_is_graph(number, each)
        names, first = ({*graph.keys()} - NOTED for graph in (each, data[0]))
        if names != first:
            name = min(names ^ first)
            without, having = (number, 0) if name in first else (0, number)
            raise GraphError(
                f"graph {having} has a field {name!r}, but graph {without} has not; "
                "give all graphs the same fields."
            )
    check_has_values(data[0])
    return data


def _num_nodes(number: int, data: Data) -> int:
    """Return the number of nodes of a graph; raise `GraphError` if it is not clear."""
    if "num_nodes" in data:
        return as_num_nodes(data["num_nodes"], f" of graph {number}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            size = data.num_nodes
        except UserWarning:
            size = None
    if size is None:
        raise GraphError(
            f"graph {number} has neither num_nodes nor x; set num_nodes, since "
            "isolated nodes are not in edge_index."
        )
    return size


def _no_edges(data: Sequence[Data], sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the edges of graphs without edges; arguments and result as in `_edges`."""
    tensors = (value for _, value in data[0] if isinstance(value, Tensor))
    given = next(tensors, sizes)
    return given.new_zeros(2, 0, dtype=torch.long), torch.zeros_like(sizes)


def _edges(data: Sequence[Data], sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the edges of all graphs, [2, e], and the number of edges of each graph."""
    values = [each.edge_index for each in data]
    for number, value in enumerate(values):
        dense = isinstance(value, Tensor) and value.layout == torch.strided
        if not dense or value.dtype != torch.long or value.shape[:-1] != (2,):
            kind = kind_of(value)
            if isinstance(value, Tensor):
                kind = f"{value.dtype} {list(value.shape)}"
            raise GraphError(
                f"edge_index of graph {number} is {kind}; give an int64 tensor [2, e]."
            )
    check_shifts(data, sizes)
    check_alike("edge_index", values, "graph", axis=1)
    counts = torch.tensor([value.size(1) for value in values], device="cpu")
    edge_index = torch.cat(values, dim=1)
    size = sizes.repeat_interleave(counts).to(edge_index.device)
    wrong = ((edge_index < 0) | (edge_index >= size)).any(dim=0).nonzero()
    if wrong.numel():
        edge = int(wrong[0])
        number = int(torch.searchsorted(counts.cumsum(0), edge, right=True))
        ends = " and ".join(map(str, edge_index[:, edge].tolist()))
        raise GraphError(
            f"edge_index of graph {number} joins nodes {ends}, but the graph has "
            f"{int(sizes[number])} nodes; number the nodes from 0."
        )
    return edge_index, counts

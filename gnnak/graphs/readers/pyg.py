"""Convert PyG `Data` objects to a `GraphStore` and back, or to a `FieldStore`."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Number
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from gnnak.errors import (
    FileFormatError,
    GraphError,
    OptionError,
    counted,
    described,
    kind_of,
    with_article,
)
from gnnak.graphs.adjacency import check_edge_shape
from gnnak.graphs.fields import (
    Names,
    check_alike,
    check_local_edges,
    check_rows,
    listed,
)
from gnnak.graphs.ragged import pointers, ragged_ranges
from gnnak.graphs.readers.files import FilePath, read_bytes, refusing
from gnnak.graphs.store import GraphStore
from gnnak.typing import as_count

if TYPE_CHECKING:
    from torch_geometric.data import Data


def check_is_list(graphs: object) -> None:
    from torch_geometric.data import Batch, Data  # takes seconds to import

    if isinstance(graphs, Batch):
        raise GraphError("this is one Batch; give a list, batch.to_data_list().")
    if isinstance(graphs, Data):
        raise GraphError("this is one Data; give a list of them.")


def check_is_graph(number: int, value: object) -> None:
    from torch_geometric.data import Batch, Data

    if isinstance(value, Batch):
        size = getattr(value, "_num_graphs", None)
        content = "" if size is None else f" of {counted(size, 'graph')}"
        told = f"graph {number} is a Batch{content}"
        raise GraphError(f"{told}; give the graphs in batch.to_data_list().")
    if not isinstance(value, Data):
        raise GraphError(f"graph {number} is {kind_of(value)}; give PyG Data objects.")


def check_has_values(fields: Iterable[tuple[str, object]]) -> None:
    for name, value in fields:
        if isinstance(value, Tensor) and value.is_meta:
            told = f"{name} of the graphs is on the meta device, so it has no values"
            raise GraphError(f"{told}; give graphs on 'cpu' or 'cuda'.")


def as_num_nodes(value: object, of: str = "") -> int:
    """Convert the field `num_nodes`, a number or a tensor of one number, to an int."""
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    try:
        return as_count("num_nodes", value)
    except OptionError as error:
        told = f"num_nodes{of} is {described(value)}"
        raise GraphError(f"{told}; give a whole number of at least 0.") from error


FIELDS = frozenset({"x", "edge_index", "num_nodes"})
"""Every graph has at least one of these fields."""


def _is_graph(item: object) -> bool:
    named = isinstance(item, Mapping) and all(isinstance(key, str) for key in item)
    return named and not FIELDS.isdisjoint(item)  # type: ignore[arg-type]


def read_pyg(path: FilePath) -> list[Data]:
    """Read a `.pt` file of one or several `Data` or dicts, without running its code."""
    from torch_geometric.data import Data  # takes seconds to import
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    # The classes that a pickled Data consists of; building them runs no foreign code.
    harmless = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
    content = io.BytesIO(read_bytes(path))
    told = (
        f"{path} is damaged, or has objects other than tensors and PyG Data, which "
        "could run code; save a list of Data with torch.save, after transforms a list "
        "of Data(**data.to_dict()); see docs/formats.md#pyg."
    )
    with refusing(told), torch.serialization.safe_globals(harmless):
        found = torch.load(content, map_location="cpu", weights_only=True)
    items = list(found) if isinstance(found, list | tuple) else [found]
    graphs = [Data(**item) if _is_graph(item) else item for item in items]
    for number, graph in enumerate(graphs, start=1):
        if not isinstance(graph, Data):
            told = f"{path}, item {number} is {kind_of(graph)}; give PyG Data, or dicts"
            raise FileFormatError(f"{told} with edge_index; see docs/formats.md#pyg.")
    return graphs


def from_pyg(
    data_list: Iterable[Data],
    node_targets: bool = False,
    node_attr: Names | None = None,
    edge_attr: Names | None = None,
) -> GraphStore:
    """Convert PyG graphs to a store with their `x`, `edge_index`, `edge_attr` and `y`.

    Features with one dimension, [n] or [e], become one column, [n, 1] or [e, 1]. Other
    fields (`pos`, `edge_weight`, masks, ...) are ignored unless you name them. All
    graphs must have the same fields. `GraphError` names the first wrong graph.

    Args:
        data_list: A list or PyG `Dataset` of graphs with the same fields, numbers of
            columns and dtypes. A graph without `edge_index` has no edges.
        node_targets: Whether `y` has one row per node, instead of one row or one number
            per graph.
        node_attr: Names of the fields, with one row per node, that become the columns
            of `x`. If None, only the field `x` is read, if the graphs have it.
        edge_attr: Names of the fields, with one row per edge, that become the columns
            of `edge_attr`. If None, only `edge_attr` is read, if the graphs have it.

    >>> from torch_geometric.data import Data
    >>> edge_index = torch.tensor([[0, 1], [1, 0]])
    >>> from_pyg([Data(edge_index=edge_index, num_nodes=2), Data(num_nodes=3)])
    GraphStore(graphs=2, nodes=5, edges=2, x=None, edge_attr=None, y=None, device='cpu')
    """
    check_is_list(data_list)
    sizes: list[int] = []
    parts: dict[str, list[Any]] = {}
    for graph, data in enumerate(data_list):
        check_is_graph(graph, data)
        try:
            size, fields = _one(data, node_targets, node_attr, edge_attr)
        except GraphError as error:
            raise GraphError(f"graph {graph}: {error}") from error
        sizes.append(size)
        for name, value in fields.items():
            parts.setdefault(name, []).append(value)
    if not sizes:
        none = torch.zeros(0, dtype=torch.long)
        return GraphStore(none, none, torch.zeros(2, 0, dtype=torch.long))
    check_has_values((name, values[0]) for name, values in parts.items())
    joined: dict[str, Any] = {}
    for name, values in parts.items():
        axis = 1 if name == "edge_index" else 0
        check_alike(name, values, "graph", axis)
        joined[name] = None if values[0] is None else torch.cat(values, dim=axis)
    device = parts["edge_index"][0].device
    num_nodes = torch.tensor(sizes, device=device)
    num_edges = torch.tensor([v.size(1) for v in parts["edge_index"]], device=device)
    return GraphStore(num_nodes, num_edges, **joined, node_targets=node_targets).check()


def to_pyg(store: GraphStore) -> list[Data]:
    """Convert every graph of a store to a PyG `Data`; the inverse of `from_pyg`.

    >>> from gnnak.graphs.readers.graph6 import parse_graph6
    >>> to_pyg(parse_graph6("A_"))
    [Data(edge_index=[2, 2], num_nodes=2)]
    """
    from torch_geometric.data import Data

    nodes, edges = store.num_nodes.tolist(), store.num_edges.tolist()
    targets = nodes if store.node_targets else [1] * len(store)
    parts: dict[str, Sequence[object]] = {"num_nodes": nodes}
    parts["edge_index"] = store.edge_index.split(edges, dim=1)
    for name, sizes in (("x", nodes), ("edge_attr", edges), ("y", targets)):
        if getattr(store, name) is not None:
            parts[name] = getattr(store, name).split(sizes)
    rows = zip(*parts.values(), strict=True)
    return [Data(**dict(zip(parts, row, strict=True))) for row in rows]


def _one(
    data: Data, node_targets: bool, node_attr: Names | None, edge_attr: Names | None
) -> tuple[int, dict[str, Tensor | None]]:
    # PyG would infer the number from edge_index, which misses isolated nodes.
    if "num_nodes" in data and data["num_nodes"] is not None:
        size = as_num_nodes(data["num_nodes"])
    else:
        rows = next((data[name] for name in ("x", "pos", "z") if name in data), None)
        if not isinstance(rows, Tensor) or not rows.dim():
            raise GraphError("it has neither num_nodes nor x; set num_nodes.")
        size = rows.size(0)
    device = next((v.device for _, v in data if isinstance(v, Tensor)), None)
    edge_index = data.edge_index
    if edge_index is None and "adj_t" in data:
        told = "leave out the transform ToSparseTensor"
        raise GraphError(f"it has adj_t and no edge_index; {told}.")
    if edge_index is None:
        edge_index = torch.zeros(2, 0, dtype=torch.long, device=device)
    check_edge_shape(edge_index)
    y = data.y
    if y is not None and (not isinstance(y, Tensor) or y.dim() == 0):
        try:
            y = torch.as_tensor(y, device=device).reshape(-1)
        except (TypeError, ValueError, RuntimeError) as error:
            told = f"y is {described(y)}; give numbers"
            raise GraphError(f"{told}; of classes, their places in a list.") from error
    x = _features(data, "x", node_attr, size, "node")
    edges = _features(data, "edge_attr", edge_attr, edge_index.size(1), "edge")
    wanted, owner = (size, "node") if node_targets else (1, "graph")
    check_rows("y", y, wanted, owner, columns=False)
    return size, {"x": x, "edge_index": edge_index, "edge_attr": edges, "y": y}


def _features(
    data: Data, default: str, names: Names | None, rows: int, owner: str
) -> Tensor | None:
    """Concatenate the fields `names`, [rows, c]; if None, try the field `default`."""
    columns, fields = [], data.to_dict()
    for name in listed(names) or (default,):
        value = fields.get(name)
        if value is None and not names:
            return None
        if value is None:
            raise GraphError(f"it has no field {name!r}; set it.")
        # A vector is one column.
        vector = isinstance(value, Tensor) and value.dim() == 1
        value = value[:, None] if vector else value
        check_rows(name, value, rows, owner)
        columns.append(value.long() if value.dtype == torch.bool else value)
    return columns[0] if len(columns) == 1 else torch.cat(columns, dim=1)


def field_axes(graphs: Sequence[Data], store: GraphStore) -> dict[str, FieldAxis]:
    """Return what the rows of each field are for (graphs, nodes or edges), by name."""
    fields = [graph.to_dict() for graph in graphs]
    axes: dict[str, FieldAxis] = {}
    for name in sorted({name for each in fields for name in each} - MADE - {"y"}):
        values = [each.get(name) for each in fields]
        shapes = [v.shape if isinstance(v, Tensor) else () for v in values]
        counts = torch.tensor([shape[0] if shape else 1 for shape in shapes])
        axes[name] = _axis(name, counts, *store.counts) or "graphs"
    return axes


FieldAxis = Literal["graphs", "nodes", "edges"]
"""Whether a field has one row per graph, per node or per edge."""


@dataclass(frozen=True, eq=False)
class Attribute:
    """One tensor field of g graphs, concatenated into one tensor."""

    value: Tensor
    """[rows, ...]: the rows of all graphs, one graph after the other."""
    count: Tensor
    """[g], int64, on the CPU: number of rows of each graph."""
    axis: FieldAxis | None = None
    """Whether there is one row per graph, node or edge; None if it is none of these."""
    dim: int = 0
    """The dimension along which PyG concatenates the field, from `Data.__cat_dim__`."""
    step: Tensor | None = None
    """[g], int64, on the CPU: for a field of indices, PyG's `Data.__inc__`; else None.
    A batch adds to a graph's indices the sum of `step` over all earlier graphs."""

    @cached_property
    def start(self) -> Tensor:
        """[g + 1], on the CPU: position of the first row of each graph."""
        return pointers(self.count)

    @property
    def is_aligned(self) -> bool:
        """Whether the field has one row per node, edge or graph, and no indices."""
        return self.axis is not None and self.step is None and not self.dim

    def of(self, graphs: Tensor) -> Tensor:
        device, count = self.value.device, self.count[graphs]
        graph, row = ragged_ranges(self.start[graphs], count)
        value = self.value.index_select(0, row.to(device, non_blocking=True))
        if self.step is not None:
            shift = pointers(self.step[graphs])[graph].to(device, non_blocking=True)
            value = value + shift.view(-1, *[1] * (value.dim() - 1)).to(value.dtype)
        return value.movedim(0, self.dim)


@dataclass(frozen=True, eq=False)
class Attributes:
    """The fields of g graphs that a `GraphStore` does not have, by name."""

    tensors: Mapping[str, Attribute] = field(default_factory=dict)
    objects: Mapping[str, list] = field(default_factory=dict)
    """The fields that are neither tensors nor numbers: one list of g values each."""

    @property
    def aligned(self) -> dict[str, Attribute]:
        return {k: v for k, v in self.tensors.items() if v.is_aligned}

    @property
    def irregular(self) -> list[str]:
        """Names of the tensor fields that cannot be padded: those not in `aligned`."""
        return [k for k, v in self.tensors.items() if not v.is_aligned]

    def rows(self, store: GraphStore, graphs: Tensor) -> dict[str, Tensor]:
        """Return the rows of some graphs in each field of `aligned`, by field name."""
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
        """Return the values of some graphs in all fields not in `aligned`, by name."""
        tensors = {name: self.tensors[name].of(graphs) for name in self.irregular}
        numbers = graphs.tolist() if self.objects else []
        lists = {k: [v[i] for i in numbers] for k, v in self.objects.items()}
        return tensors | lists

    def to(self, device: torch.device) -> Attributes:
        tensors = self.tensors.items()
        there = {name: replace(v, value=v.value.to(device)) for name, v in tensors}
        return replace(self, tensors=there)


def _rows(store: GraphStore, axis: FieldAxis, host: Tensor, there: Tensor) -> Tensor:
    """Return the rows of graphs, given their numbers on the CPU and on the device."""
    if axis == "graphs":
        return there
    nodes = axis == "nodes"
    start = store.node_ptr if nodes else store.edge_ptr
    count = store.num_nodes if nodes else store.num_edges
    total = int(store.counts[0 if nodes else 1, host].sum())
    return ragged_ranges(start[there], count[there], total)[1]


DENSE = (
    "GraphLoader takes dense tensors, so leave out the transform that converts it, "
    "such as ToSparseTensor, or use PyG's DataLoader."
)


def concatenate_field(
    name: str, values: list, data: Sequence[Data], num_nodes: Tensor, num_edges: Tensor
) -> Attribute:
    """Concatenate the values of one field in all graphs, as PyG's `Batch` does."""
    tensors = isinstance(values[0], Tensor)
    for number, value in enumerate(values if tensors else ()):
        if not isinstance(value, Tensor) or value.dim() != values[0].dim():
            raise GraphError(_differ(name, values, number))
        if value.layout != torch.strided:
            kind = with_article(str(value.layout).removeprefix("torch."))
            told = f"field {name!r} of graph {number} is {kind} tensor"
            raise GraphError(f"{told}; {DENSE}")
    numbered = enumerate(zip(data, values, strict=True))
    shifts = [_step(name, i, each, value) for i, (each, value) in numbered]
    steps = torch.tensor(shifts, device="cpu")
    step = steps if steps.any() else None
    if not tensors:
        value = _numbers(name, values)
        return Attribute(value, torch.ones_like(num_nodes), "graphs", step=step)
    dim = data[0].__cat_dim__(name, values[0])
    if dim is None or values[0].dim() == 0:
        check_alike(name, values, "graph", axis=None)
        dim, values = 0, [value[None] for value in values]
    check_alike(name, values, "graph", axis=dim % values[0].dim())
    count = torch.tensor([value.size(dim) for value in values], device="cpu")
    rows = torch.cat(values, dim=dim).movedim(dim, 0)
    axis = _axis(name, count, num_nodes, num_edges)
    return Attribute(rows.contiguous(), count, axis, dim, step)


def _numbers(name: str, values: list) -> Tensor:
    try:
        return torch.tensor(values, device="cpu")
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        for number, value in enumerate(values):
            if not isinstance(value, Number):
                raise GraphError(_differ(name, values, number)) from error
        told = f"field {name!r} has a whole number that does not fit into 64 bits"
        raise GraphError(f"{told}; give floats or texts.") from error


def _differ(name: str, values: list, number: int) -> str:
    def shown(value: object) -> str:
        if isinstance(value, Tensor):
            return f"a tensor of shape {list(value.shape)}"
        return kind_of(value)

    told = f"{name} is {shown(values[0])} in graph 0 but {shown(values[number])} in"
    return f"{told} graph {number}; make them equal."


def _step(name: str, number: int, data: Data, value: object) -> int:
    """Return `__inc__` of a field of one graph; raise `GraphError` if it is no int."""
    try:
        step = data.__inc__(name, value)
    except RuntimeError as error:
        if not isinstance(value, Tensor) or value.numel():
            raise
        raise GraphError(
            f"field {name!r} of graph {number} is empty, but PyG reads the largest "
            "number of a field with 'batch' in its name; rename the field."
        ) from error
    if isinstance(step, Tensor):
        step = int(step) if step.numel() == 1 else step.tolist()
    if not isinstance(step, int):
        told = f"__inc__ of field {name!r} of graph {number} is {step!r}"
        raise GraphError(f"{told}; give one whole number, or use PyG's DataLoader.")
    return step


def _axis(
    name: str, count: Tensor, num_nodes: Tensor, num_edges: Tensor
) -> FieldAxis | None:
    """Return the axis with `count[i]` rows in each graph i; None if there is none."""
    sizes = {"graphs": torch.ones_like(count), "nodes": num_nodes, "edges": num_edges}
    order: list[FieldAxis] = ["graphs", "nodes", "edges"]
    if name in ("x", "pos", "z") or "node" in name:
        order = ["nodes", "graphs", "edges"]
    elif "edge" in name:
        order = ["edges", "graphs", "nodes"]
    return next((axis for axis in order if torch.equal(count, sizes[axis])), None)


def check_objects(name: str, values: list) -> list:
    """Return the values of a field; raise `GraphError` if one has tensors or dicts."""
    from torch_geometric.typing import SparseTensor

    for number, value in enumerate(values):
        parts = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(part, SparseTensor) for part in parts):
            raise GraphError(f"field {name!r} of graph {number} is sparse; {DENSE}")
        if any(isinstance(part, Tensor | dict) for part in parts):
            raise GraphError(
                f"field {name!r} of graph {number} is {kind_of(value)}; GraphLoader "
                "takes tensors, numbers, texts and lists of them, so remove the field "
                "or use PyG's DataLoader."
            )
    return values


STORED: dict[str, tuple[FieldAxis, ...]] = {
    "x": ("nodes",),
    "edge_attr": ("edges",),
    "y": ("graphs", "nodes"),
}
"""Optional fields of a `GraphStore`, and the axes that their rows may belong to."""
NOTED = {"_num_nodes"}
"""Private field of PyG batches with the number of nodes of each graph."""
MADE = {"edge_index", "num_nodes", "batch", "ptr"} | NOTED
"""Fields that are converted separately, or computed for each batch."""


@dataclass(frozen=True, eq=False)
class FieldStore:
    """Many graphs with all their fields, concatenated into a few tensors."""

    store: GraphStore
    """The graphs; a field such as `x` is stored here only if `STORED` has its axis."""
    attributes: Attributes = field(default_factory=Attributes)
    """The fields of the graphs that `store` does not have."""
    kind: type | None = None
    """The class of the PyG graphs; if None, `torch_geometric.data.Data`."""
    has_edges: bool = True
    has_counts: bool = False

    def to(self, device: torch.device) -> FieldStore:
        fields = [getattr(self.store, name) for name in ("edge_index", *STORED)]
        fields += [each.value for each in self.attributes.tensors.values()]
        if all(value is None or value.device == device for value in fields):
            return self
        moved = self.store.to(device), self.attributes.to(device)
        return FieldStore(*moved, self.kind, self.has_edges, self.has_counts)


def read_fields(graphs: Iterable[Data]) -> FieldStore:
    data = _checked(graphs)
    # Counts are on the CPU, also if a user has set another default device.
    counts = [_num_nodes(number, each) for number, each in enumerate(data)]
    sizes = torch.tensor(counts, device="cpu")
    edge_index, num_edges = _edges(data, sizes)
    given: dict[str, Any] = {"node_targets": False}
    tensors, objects = {}, {}
    for name in sorted(set(data[0].keys()) - MADE):
        values = [each[name] for each in data]
        if isinstance(values[0], Tensor | int | float):
            attribute = concatenate_field(name, values, data, sizes, num_edges)
            if attribute.is_aligned and attribute.axis in STORED.get(name, ()):
                given[name] = attribute.value
                given["node_targets"] |= name == "y" and attribute.axis == "nodes"
            else:
                tensors[name] = attribute
        else:
            objects[name] = check_objects(name, values)
    device = edge_index.device
    store = GraphStore(sizes.to(device), num_edges.to(device), edge_index, **given)
    has = "edge_index" in data[0], "num_nodes" in data[0]
    return FieldStore(store, Attributes(tensors, objects), type(data[0]), *has)


def _checked(graphs: Iterable[Data]) -> list[Data]:
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
            told = f"graph {having} has a field {name!r}, but graph {without} has not"
            raise GraphError(f"{told}; give all graphs the same fields.")
    check_has_values(data[0])
    return data


def _num_nodes(number: int, data: Data) -> int:
    if "num_nodes" in data:
        return as_num_nodes(data["num_nodes"], f" of graph {number}")
    with warnings.catch_warnings(), suppress(UserWarning):
        warnings.simplefilter("error")
        if data.num_nodes is not None:
            return data.num_nodes
    told = f"graph {number} has neither num_nodes nor x; set num_nodes"
    raise GraphError(f"{told}, since isolated nodes are not in edge_index.")


def _edges(data: Sequence[Data], sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the edges of all graphs, [2, e], and the number of edges of each graph."""
    if "edge_index" not in data[0]:
        given = next((v for _, v in data[0] if isinstance(v, Tensor)), sizes)
        return given.new_zeros(2, 0, dtype=torch.long), torch.zeros_like(sizes)
    values = [each.edge_index for each in data]
    for number, value in enumerate(values):
        dense = isinstance(value, Tensor) and value.layout == torch.strided
        if not dense or value.dtype != torch.long or value.shape[:-1] != (2,):
            shaped = isinstance(value, Tensor)
            kind = f"{value.dtype} {list(value.shape)}" if shaped else kind_of(value)
            told = f"edge_index of graph {number} is {kind}"
            raise GraphError(f"{told}; give an int64 tensor [2, e].")
    from torch_geometric.data import Data

    for number, (each, size) in enumerate(zip(data, sizes.tolist(), strict=True)):
        if type(each).__inc__ is Data.__inc__:  # adds the number of nodes
            continue
        step = _step("edge_index", number, each, each.edge_index)
        if step != size:
            told = f"__inc__ of field 'edge_index' of graph {number} is {step}, but the"
            nodes = counted(size, "node")
            raise GraphError(f"{told} graph has {nodes}; use PyG's DataLoader.")
    check_alike("edge_index", values, "graph", axis=1)
    counts = torch.tensor([value.size(1) for value in values], device="cpu")
    edge_index = torch.cat(values, dim=1)
    there = edge_index.device
    check_local_edges(edge_index, sizes.to(there), counts.to(there))
    return edge_index, counts

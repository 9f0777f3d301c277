"""Convert PyG `Data` objects to a `GraphStore`, and back."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnnak.errors import FileFormatError, GraphError, kind_of
from gnnak.graphs.adjacency import check_edge_shape
from gnnak.graphs.fields import check_alike, check_rows
from gnnak.graphs.readers.files import FilePath, read_bytes
from gnnak.graphs.readers.pyg_fields import (
    as_num_nodes,
    check_has_values,
    check_is_graph,
    check_is_list,
)
from gnnak.graphs.store import GraphStore

if TYPE_CHECKING:
    from torch_geometric.data import Data

FIELDS = ("x", "edge_index", "edge_attr", "y", "num_nodes")


def read_pyg(path: FilePath) -> list[Data]:
    """Read the graphs of a `.pt` file: one graph or a list of graphs.

    A graph is a PyG `Data`, or a dict with `edge_index` and, optionally, `x`,
    `edge_attr`, `y` and `num_nodes`. The file is read with `weights_only=True`: a
    pickle with any other object is refused, because it could run code.
    """
    from torch_geometric.data import Data  # takes seconds to import
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    # The classes that a pickled Data consists of; building them runs no foreign code.
    harmless = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
    content = io.BytesIO(read_bytes(path))
    try:
        with torch.serialization.safe_globals(harmless):
            found = torch.load(content, map_location="cpu", weights_only=True)
    except Exception as error:  # PyTorch raises errors of any type on damaged files
        raise FileFormatError(
            f"{path} is damaged, or has objects other than tensors and PyG Data, which "
            "could run code; save a list of Data with torch.save."
        ) from error
    items = list(found) if isinstance(found, list | tuple) else [found]
    fields = set(FIELDS)
    graphs = [
        Data(**item) if isinstance(item, Mapping) and set(item) <= fields else item
        for item in items
    ]
    for number, graph in enumerate(graphs, start=1):
        if not isinstance(graph, Data):
            raise FileFormatError(
                f"{path}, item {number} is {kind_of(graph)}; give PyG Data, or "
                "dicts with edge_index."
            )
    return graphs


def from_pyg(data_list: Iterable[Data], node_targets: bool = False) -> GraphStore:
    """Convert PyG graphs to a store with their `x`, `edge_index`, `edge_attr` and `y`.

    One-dimensional `x` [n] and `edge_attr` [e] become one column, [n, 1] and [e, 1].
    All other attributes (`pos`, `edge_weight`, masks, ...) are dropped. `GraphError`
    names the first graph that is malformed or has other fields than the first graph.

    Args:
        data_list: A list or PyG `Dataset` of graphs with the same fields, numbers of
            columns and dtypes. A graph without `edge_index` has no edges.
        node_targets: Whether `y` has one row per node, instead of one row or one number
            per graph.

    >>> from torch_geometric.data import Data
    >>> edge_index = torch.tensor([[0, 1], [1, 0]])
    >>> from_pyg([Data(edge_index=edge_index, num_nodes=2), Data(num_nodes=3)])
    GraphStore(graphs=2, nodes=5, edges=2, x=None, edge_attr=None, y=None, device='cpu')
    """
    sizes, parts = _collect(data_list, node_targets)
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
    store = GraphStore(num_nodes, num_edges, **joined, node_targets=node_targets)
    return store.check()


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


def _collect(
    data_list: Iterable[Data], node_targets: bool
) -> tuple[list[int], dict[str, list[Any]]]:
    """Return the number of nodes of each graph, and the values of fields by name."""
    check_is_list(data_list)
    sizes: list[int] = []
    parts: dict[str, list[Any]] = {}
    for graph, data in enumerate(data_list):
        check_is_graph(graph, data)
        try:
            size, fields = _one(data, node_targets)
        except GraphError as error:
            raise GraphError(f"graph {graph}: {error}") from error
        sizes.append(size)
        for name, value in fields.items():
            parts.setdefault(name, []).append(value)
    return sizes, parts


def _one(data: Data, node_targets: bool) -> tuple[int, dict[str, Tensor | None]]:
    """Return the number of nodes of one graph, and its checked fields by name."""
    # PyG would infer the number from edge_index, which misses isolated nodes.
    if "num_nodes" in data and data["num_nodes"] is not None:
        size = as_num_nodes(data["num_nodes"])
    elif isinstance(data.x, Tensor) and data.x.dim():
        size = data.x.size(0)
    else:
        raise GraphError("it has neither num_nodes nor x; set num_nodes.")
    device = next((v.device for _, v in data if isinstance(v, Tensor)), None)
    edge_index = data.edge_index
    if edge_index is None:
        edge_index = torch.zeros(2, 0, dtype=torch.long, device=device)
    check_edge_shape(edge_index)
    x, edge_attr, y = _columns(data.x), _columns(data.edge_attr), data.y
    if y is not None and (not isinstance(y, Tensor) or y.dim() == 0):
        y = torch.as_tensor(y, device=device).reshape(-1)
    if x is not None:
        check_rows("x", x, size, "node")
    if edge_attr is not None:
        check_rows("edge_attr", edge_attr, edge_index.size(1), "edge")
    if y is not None:
        rows, owner = (size, "node") if node_targets else (1, "graph")
        check_rows("y", y, rows, owner, columns=False)
    fields = {"x": x, "edge_index": edge_index, "edge_attr": edge_attr, "y": y}
    return size, fields


def _columns(value: Tensor | None) -> Tensor | None:
    """Return a vector [k] as one column [k, 1], and anything else unchanged."""
    vector = isinstance(value, Tensor) and value.dim() == 1
    return value[:, None] if vector else value  # type: ignore[index]

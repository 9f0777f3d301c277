"""Read one large graph and its seed nodes, and gather rows of its fields."""

import copy
import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, FeatureStore, GraphStore

from gnnak.errors import GraphError, OptionError, described, kind_of

MADE = ("edge_index", "num_nodes", "input_id", "batch_size", "batch")
"""Fields that a loader sets in each batch."""


class Rows(NamedTuple):
    """A field of a `LargeGraph` that has one row per node or one row per edge."""

    value: Any
    dim: int = 0
    """The dimension of a tensor along which its rows are counted."""

    def select(self, index: Tensor, device: torch.device) -> Any:
        """Copy rows `index` to `device`; `index` must be on the device of `value`."""
        value, dim = self
        if not isinstance(value, Tensor):
            places = index.tolist()
            is_list = isinstance(value, list | tuple)
            return [value[i] for i in places] if is_list else value[places]
        copied = value.device != device and value.device.type == "cpu"
        if not copied or value.requires_grad:
            return value.index_select(dim, index).to(device)
        shape = list(value.shape)
        shape[dim] = index.numel()
        pinned = torch.empty(shape, dtype=value.dtype, pin_memory=True)
        torch.index_select(value, dim, index, out=pinned)
        return pinned.to(device, non_blocking=True)


@dataclass(frozen=True)
class LargeGraph:
    """The edges and fields of one graph; a batch has some rows of each field."""

    edge_index: Tensor
    num_nodes: int
    rest: Data = field(default_factory=Data)
    """All other fields, which are the same in each batch."""
    node: dict[str, Rows] = field(default_factory=dict)
    """Fields with a row per node, by name."""
    edge: dict[str, Rows] = field(default_factory=dict)
    """Fields with a row per edge, by name."""
    store: FeatureStore | None = None
    """A store of further fields with a row per node."""

    def gather(self, node: Tensor, edge: Tensor, device: torch.device) -> dict:
        """Return the rows of some nodes and edges on a device, as a dict of fields."""
        found: dict[str, Any] = {}
        for fields, index in ((self.node, node), (self.edge, edge)):
            places = {device_of(rows.value) for rows in fields.values()}
            at = {place: index.to(place) for place in places}
            for name, rows in fields.items():
                found[name] = rows.select(at[device_of(rows.value)], device)
        if self.store is not None:
            attributes = node_attributes(self.store)
            for each in attributes:
                each.index = node.cpu()
            values = self.store.multi_get_tensor(attributes)
            for each, value in zip(attributes, values, strict=True):
                found[each.attr_name] = torch.as_tensor(value).to(device)
        return found


def device_of(value: object) -> torch.device:
    return value.device if isinstance(value, Tensor) else torch.device("cpu")


def read_large_graph(data: object, with_subgraphs: bool) -> LargeGraph:
    """Read the argument `data` of a `RootLoader`: a PyG `Data` or a pair of stores."""
    if isinstance(data, Data):
        return _read_data(data, with_subgraphs)
    if isinstance(data, list | tuple) and len(data) == 2:
        first, second = data
        two_graphs = isinstance(first, Data) and isinstance(second, Data)
        are_stores = isinstance(first, FeatureStore) and isinstance(second, GraphStore)
        if are_stores and not two_graphs:
            return _read_stores(first, second)
    raise GraphError(
        f"data is {kind_of(data)}; give one PyG Data with x and edge_index, or a pair "
        "(feature_store, graph_store); for many graphs, use gnnak.GraphLoader."
    )


def _read_data(data: Data, with_subgraphs: bool) -> LargeGraph:
    if data.edge_index is None:
        raise GraphError("data has no edge_index; give the edges as [2, e].")
    if with_subgraphs and "subgraphs" in data:
        raise GraphError(
            "data has a field 'subgraphs', but the loader stores the rooted subgraphs "
            "of a batch under this name; rename the field."
        )
    rest, num_nodes = copy.copy(data), data.num_nodes
    node: dict[str, Rows] = {}
    edge: dict[str, Rows] = {}
    for name, value in data.to_dict().items():
        if isinstance(value, Tensor) and value.layout != torch.strided:
            raise GraphError(
                f"the field {name!r} of data is a sparse tensor, whose rows cannot be "
                "gathered; convert it with .to_dense(), or remove it."
            )
        if name in MADE:
            del rest[name]
        elif data.is_node_attr(name) or data.is_edge_attr(name):
            dim = data.__cat_dim__(name, value) if hasattr(value, "ndim") else 0
            fields = node if data.is_node_attr(name) else edge
            fields[name] = Rows(as_tensor(value), dim)
            del rest[name]
    return LargeGraph(data.edge_index, num_nodes or 0, rest, node, edge)


def as_tensor(value: Any) -> Any:
    """Return a NumPy array of numbers as a tensor that shares its memory."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
        return value
    with warnings.catch_warnings():
        # The rows of a read-only file are gathered, and never written.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
        return torch.from_numpy(value)


def node_attributes(store: FeatureStore) -> list[Any]:
    every = store.get_all_tensor_attrs()
    return [each for each in every if not isinstance(each.group_name, list | tuple)]


def _read_stores(features: FeatureStore, graph: GraphStore) -> LargeGraph:
    edges, nodes = graph.get_all_edge_attrs(), node_attributes(features)
    kinds = {str(each.edge_type) for each in edges}
    groups = {each.group_name for each in nodes}
    if len(kinds) != 1 or len(groups) > 1:
        raise GraphError(
            f"the stores have {len(kinds)} types of edges and {len(groups)} types of "
            "nodes; give stores of a graph with one type of each."
        )
    sources, targets, _ = graph.coo()
    if isinstance(sources, dict):
        (sources,), (targets,) = sources.values(), targets.values()
    sizes = [size for each in edges for size in each.size or ()]
    if not sizes and nodes:
        sizes = list(features.get_tensor_size(nodes[0]) or ())[:1]
    if not sizes:
        raise GraphError("the stores do not say how many nodes there are; set size.")
    edge_index = torch.stack([sources, targets]).long()
    return LargeGraph(edge_index, max(sizes), store=features)


def read_seeds(
    input_nodes: object, num_nodes: int, name: str = "input_nodes"
) -> tuple[Tensor, Tensor]:
    """Return the seed nodes, and the `input_id` of each seed, as two CPU tensors.

    >>> read_seeds([False, True, True], 3), read_seeds([2, 1], 3)
    ((tensor([1, 2]), tensor([1, 2])), (tensor([2, 1]), tensor([0, 1])))
    """
    if input_nodes is None:
        every = torch.arange(num_nodes, device="cpu")
        return _not_empty(every, name), every
    try:
        given = torch.as_tensor(input_nodes, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        given = None
    if given is None or given.dim() != 1:
        shape = "" if given is None else f" of shape {list(given.shape)}"
        raise OptionError(
            f"{name} is {described(input_nodes)}{shape}; give a mask with one "
            f"entry for each of the {num_nodes} nodes, or a list of node numbers."
        )
    _not_empty(given, name)
    if given.dtype == torch.bool:
        if given.numel() != num_nodes:
            raise OptionError(
                f"{name} is a mask with {given.numel()} entries, but the graph "
                f"has {num_nodes} nodes; give one entry per node."
            )
        nodes = _not_empty(given.nonzero().flatten(), name)
        return nodes, nodes
    if given.is_floating_point() or given.is_complex():
        raise OptionError(
            f"{name} has the dtype {given.dtype}; give a mask of booleans, or "
            "node numbers as integers."
        )
    nodes = given.long()
    ordered = nodes.sort().values
    if ordered[0] < 0 or ordered[-1] >= num_nodes:
        wrong = int(ordered[0] if ordered[0] < 0 else ordered[-1])
        raise OptionError(
            f"{name} has node {wrong}, but the graph has the nodes 0 to "
            f"{num_nodes - 1}; give nodes of the graph."
        )
    repeated = ordered[1:][ordered.diff() == 0]
    if repeated.numel():
        raise OptionError(
            f"{name} has node {int(repeated[0])} twice; give each node at most once."
        )
    return nodes, torch.arange(nodes.numel(), device="cpu")


def _not_empty(seeds: Tensor, name: str) -> Tensor:
    if not seeds.numel():
        raise OptionError(f"{name} has no node; give at least one node.")
    return seeds

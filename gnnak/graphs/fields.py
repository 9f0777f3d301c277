"""Functions that check or move the fields of a `GraphStore` or a `GraphBatch`."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from gnnak.errors import GraphError, counted, kind_of
from gnnak.graphs.adjacency import check_edge_shape

Record = TypeVar("Record", bound=Any)


def moved(
    record: Record, device: torch.device | str | int, non_blocking: bool = False
) -> Record:
    """Move a dataclass to a device: call the method `to` of each field that has it."""
    there = {}
    for each in fields(record):
        if hasattr(value := getattr(record, each.name), "to"):
            there[each.name] = value.to(device, non_blocking=non_blocking)
    return replace(record, **there)


def check_tensor(name: str, value: object, device: torch.device | None) -> Tensor:
    """Check that `value` is a tensor on `device` (any device if None); return it."""
    if not isinstance(value, Tensor):
        raise GraphError(f"{name} is {kind_of(value)}; give a tensor.")
    if device is not None and value.device != device:
        told = f"{name} is on {value.device}, the other fields on {device}"
        raise GraphError(f"{told}; move it there.")
    return value


def check_counts(name: str, value: object, device: torch.device | None = None) -> None:
    tensor = check_tensor(name, value, device)
    if tensor.dtype != torch.long or tensor.dim() != 1:
        told = f"{name} is {tensor.dtype} of shape {list(tensor.shape)}"
        raise GraphError(f"{told}; give an int64 tensor with one dimension.")
    if not tensor.numel():
        return
    low, high = (int(end) for end in tensor.aminmax())
    if low < 0:
        at = int((tensor < 0).nonzero()[0])
        raise GraphError(f"{name}[{at}] is {int(tensor[at])}; give at least 0.")
    if high * tensor.numel() >= 1 << 62:
        raise GraphError(f"{name} contains {high}; the sum would overflow int64.")


def check_local_edges(edge_index: Tensor, num_nodes: Tensor, num_edges: Tensor) -> None:
    check_tensor("edge_index", edge_index, num_nodes.device)
    check_edge_shape(edge_index)
    total = int(num_edges.sum())
    if edge_index.size(1) != total:
        told = f"edge_index has {counted(edge_index.size(1), 'edge')}, but num_edges"
        raise GraphError(f"{told} adds up to {total}; give one column for every edge.")
    size = num_nodes.repeat_interleave(num_edges, output_size=total)
    wrong = ((edge_index < 0) | (edge_index >= size)).any(dim=0).nonzero()
    if wrong.numel():
        edge = int(wrong[0])
        ends = edge_index[:, edge].tolist()
        graph = int(torch.searchsorted(num_edges.cumsum(0), edge, right=True))
        raise GraphError(
            f"edge_index joins nodes {ends[0]} and {ends[1]} in graph {graph}, which "
            f"has {int(num_nodes[graph])} nodes; number nodes from 0 in each graph."
        )


def check_rows(
    name: str,
    value: object,
    rows: int,
    owner: str,
    columns: bool = True,
    device: torch.device | None = None,
) -> None:
    """Raise `GraphError` unless `value` is None or a tensor with `rows` rows."""
    if value is None:
        return
    tensor = check_tensor(name, value, device)
    if tensor.dim() < 1 or (columns and tensor.dim() != 2):
        shape = f"[{owner[0]}, {'c' if columns else '...'}]"
        told = f"{name} has shape {list(tensor.shape)}"
        raise GraphError(f"{told}; give {shape}, one row for every {owner}.")
    if tensor.size(0) != rows:
        told = f"{name} has {counted(tensor.size(0), 'row')}"
        raise GraphError(f"{told}; give {rows}, one for every {owner}.")


def check_alike(
    name: str, values: Sequence[object], owner: str, axis: int | None = 0
) -> None:
    """Raise `GraphError` unless dtypes, devices and shapes (except at `axis`) agree."""
    kinds = [_joinable(value, axis) for value in values]
    for position, kind in enumerate(kinds):
        if kind != kinds[0]:
            told = f"{name} is {kinds[0]} in {owner} 0 but {kind} in {owner} {position}"
            raise GraphError(f"{told}; make them equal.")


Names = str | Sequence[str]
"""One or more names of attributes."""


def listed(names: Names | None) -> Sequence[str]:
    return (names,) if isinstance(names, str) else names or ()


def describe(value: Tensor | None) -> str:
    """Return the shape of a tensor as text, such as "[5, 1]", or "None" for None."""
    return "None" if value is None else str(list(value.shape))


def _joinable(value: object, axis: int | None) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    shape = [str(length) for length in value.shape]
    if axis is not None:
        shape[axis : axis + 1] = "*"
    return f"{value.dtype} [{', '.join(shape)}] on {value.device}"

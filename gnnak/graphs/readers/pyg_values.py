"""Concatenate the values of one field of many PyG graphs, as PyG's `Batch` does."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs.attributes import Attribute, FieldAxis
from gnnak.graphs.fields import check_alike
from gnnak.wording import counted, kind_of, with_article

if TYPE_CHECKING:
    from torch_geometric.data import Data


DENSE = (
    "GraphLoader takes dense tensors, so leave out the transform that converts it, "
    "such as ToSparseTensor, or use PyG's DataLoader."
)
"""What to do with a sparse tensor."""


def is_numeric(value: object) -> bool:
    """Return whether PyG converts a field to a tensor if its first value is this."""
    return isinstance(value, Tensor | int | float)


def concatenate_field(
    name: str,
    values: list,
    data: Sequence[Data],
    num_nodes: Tensor,
    num_edges: Tensor,
) -> Attribute:
    """Concatenate the values of one field, as PyG's `Batch` does.

    Args:
        name: Name of the field.
        values: Its value in each of the g graphs.
        data: The g graphs.
        num_nodes: Number of nodes of each graph, [g].
        num_edges: Number of edges of each graph, [g].
    """
    tensors = isinstance(values[0], Tensor)
    if tensors:
        _check_tensors(name, values)
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


def check_shifts(data: Sequence[Data], num_nodes: Tensor) -> None:
    """Raise `GraphError` unless `__inc__` of `edge_index` is the number of nodes.

    Other numbers are for graphs with two kinds of nodes, for example. A batch of the
    loader has one.

    Args:
        data: The g graphs.
        num_nodes: Number of nodes of each graph, [g].
    """
    from torch_geometric.data import Data

    for number, (each, size) in enumerate(zip(data, num_nodes.tolist(), strict=True)):
        if type(each).__inc__ is Data.__inc__:
            continue
        step = _step("edge_index", number, each, each.edge_index)
        if step != size:
            raise GraphError(
                f"__inc__ of field 'edge_index' of graph {number} is {step}, but the "
                f"graph has {counted(size, 'node')}; use PyG's DataLoader for such "
                "graphs."
            )


def _check_tensors(name: str, values: list) -> None:
    """Raise `GraphError` unless all values are dense tensors with equal dimensions."""
    for number, value in enumerate(values):
        if not isinstance(value, Tensor) or value.dim() != values[0].dim():
            raise GraphError(_differ(name, values, number))
        if value.layout != torch.strided:
            kind = with_article(str(value.layout).removeprefix("torch."))
            raise GraphError(
                f"field {name!r} of graph {number} is {kind} tensor; {DENSE}"
            )


def _numbers(name: str, values: list) -> Tensor:
    """Return numbers as a tensor [g]; raise `GraphError` if that is not possible."""
    try:
        return torch.tensor(values, device="cpu")
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        for number, value in enumerate(values):
            if not isinstance(value, Number):
                raise GraphError(_differ(name, values, number)) from error
        raise GraphError(
            f"field {name!r} has a whole number that does not fit into 64 bits; give "
            "floats or texts."
        ) from error


def _differ(name: str, values: list, number: int) -> str:
    """Return the message that a field of graph `number` differs from graph 0."""
    first, other = (
        f"a tensor of shape {list(value.shape)}"
        if isinstance(value, Tensor)
        else kind_of(value)
        for value in (values[0], values[number])
    )
    return (
        f"{name} is {first} in graph 0 but {other} in graph {number}; make them equal."
    )


def _step(name: str, number: int, data: Data, value: object) -> int:
    """Return `__inc__` of a field of graph `number`, if it is a whole number."""
    try:
        step = data.__inc__(name, value)
    except RuntimeError as error:
        if not isinstance(value, Tensor) or value.numel():
            raise
        raise GraphError(
            f"field {name!r} of graph {number} is empty, but PyG adds the largest "
            "number of a field with 'batch' in its name to the next graph; rename the "
            "field."
        ) from error
    if isinstance(step, Tensor) and step.numel() == 1:
        step = int(step)
    if not isinstance(step, int):
        shown = step.tolist() if isinstance(step, Tensor) else repr(step)
        raise GraphError(
            f"__inc__ of field {name!r} of graph {number} is {shown}; give one whole "
            "number, or use PyG's DataLoader."
        )
    return step


def _axis(
    name: str, count: Tensor, num_nodes: Tensor, num_edges: Tensor
) -> FieldAxis | None:
    """Return what a field has one row for; None if the numbers of rows do not say."""
    ones = torch.ones_like(count)
    sizes: dict[FieldAxis, Tensor] = {
        "nodes": num_nodes,
        "graphs": ones,
        "edges": num_edges,
    }
    order: list[FieldAxis] = ["graphs", "nodes", "edges"]
    if name in ("x", "pos", "z") or "node" in name:
        order = ["nodes", "graphs", "edges"]
    elif "edge" in name:
        order = ["edges", "graphs", "nodes"]
    return next((axis for axis in order if torch.equal(count, sizes[axis])), None)


def check_objects(name: str, values: list) -> list:
    """Return the values of a field without tensors; raise `GraphError` for others."""
    from torch_geometric.typing import SparseTensor

    for number, value in enumerate(values):
        parts = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(part, SparseTensor) for part in parts):
            raise GraphError(f"field {name!r} of graph {number} is sparse; {DENSE}")
        if any(isinstance(part, Tensor | dict) for part in parts):
            kind = kind_of(value)
            raise GraphError(
                f"field {name!r} of graph {number} is {kind}; GraphLoader takes "
                "tensors, numbers, texts and lists without tensors, so remove the "
                "field or use PyG's DataLoader."
            )
    return values

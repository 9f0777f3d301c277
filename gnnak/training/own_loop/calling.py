"""Call any model with a PyG batch: with the whole batch, or with fields of the batch.

The names of the parameters of the model's `forward` decide.
"""

from __future__ import annotations

from inspect import Parameter
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.data.data import BaseData

from gnnak.errors import EdgeAttrError, OptionError, kind_of
from gnnak.graphs.batch import GraphBatch
from gnnak.graphs.real import RealCounts
from gnnak.models.network import Network
from gnnak.nn.calling.signature import VARIADIC, arguments_of

NUM_GRAPHS = ("num_graphs", "batch_size")
"""Names of parameters that get the number of graphs."""
GIVE_CALL = "give call=lambda model, batch: model(...)."
"""What to do about a model that cannot be called by the names of its parameters."""


def call_model(model: nn.Module, batch: Batch) -> Any:
    """Call a model with a batch, and return what the model returns.

    If the only parameter of `model.forward` without a default is no field of the batch,
    or is called `batch`, the model gets the whole batch. Otherwise each parameter gets
    the field of its name: `x`, `edge_index`, `edge_attr`, `batch` and so on. The
    parameters `num_graphs` and `batch_size` get the number of graphs. A single `Data`
    is one graph: its `batch` is a vector of zeros, for a parameter without a default.

    Raises:
        OptionError: If `batch` is no batch, if `model.forward` has no named parameters,
            or if the batch has no field for a parameter without a default.
        EdgeAttrError: If the batch has edge attributes that the model does not read.
    """
    inside = _inside(model)
    _check_batch(batch, inside)
    if isinstance(inside, Network):
        return model(batch)
    parameters = [p for p in arguments_of(inside) if p.kind not in VARIADIC]
    if not parameters:
        name = type(inside).__name__
        raise OptionError(f"{name}.forward names no parameters; {GIVE_CALL}")
    if _takes_batch(parameters, batch):
        return model(batch)
    by_position, by_name = [], {}
    for parameter in parameters:
        value = _value(parameter, batch)
        if value is Parameter.empty:
            raise _missing(parameter.name, batch, inside)
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            by_position.append(value)
        elif value is not parameter.default:
            by_name[parameter.name] = value
    try:
        return model(*by_position, **by_name)
    except EdgeAttrError as error:
        told = str(error).rstrip(".")
        raise EdgeAttrError(
            f"{told}; the step passes every field that is a parameter of forward, so "
            f"to leave one out, {GIVE_CALL}"
        ) from error


def _inside(model: nn.Module) -> nn.Module:
    """Return the user's module inside wrappers such as DDP or `torch.compile`.

    A wrapper is a module whose `forward` takes `*args` and `**kwargs` only, and calls
    its submodule `module`.

    Raises:
        OptionError: If the wrapper is `DataParallel`.
    """
    wrapped = getattr(model, "_orig_mod", model)
    if isinstance(wrapped, nn.DataParallel):
        raise OptionError(
            "DataParallel splits the rows of a batch, and not its graphs; give the "
            "model inside, model.module, or use DistributedDataParallel."
        )
    inner = getattr(wrapped, "module", None)
    if not isinstance(inner, nn.Module):
        return wrapped
    kinds = tuple(parameter.kind for parameter in arguments_of(wrapped))
    return _inside(inner) if kinds == VARIADIC else wrapped


def _check_batch(batch: object, model: nn.Module) -> None:
    """Raise `OptionError` unless `batch` is a PyG batch, or a batch for a `Network`."""
    known = (BaseData, GraphBatch) if isinstance(model, Network) else BaseData
    if not isinstance(batch, known):
        raise OptionError(
            f"the step got {kind_of(batch)}; give a batch of a GraphLoader or of PyG's "
            "DataLoader: for batch in loader: step(batch)."
        )


def _takes_batch(parameters: list[Parameter], batch: Batch) -> bool:
    """Return whether a model with these parameters gets the whole batch."""
    required = [p.name for p in parameters if p.default is p.empty]
    names = required or [p.name for p in parameters[:1]]
    if len(names) > 1:
        return False
    return names[0] == "batch" or names[0] not in batch


def _value(parameter: Parameter, batch: Batch) -> Any:
    """Return the value that a parameter of a model gets.

    This is the field of its name, a number that belongs to the batch, or the default;
    `Parameter.empty` if there is none of them.
    """
    name = parameter.name
    if name in batch:
        return batch[name]
    if name == "num_nodes":
        return batch.num_nodes
    if name in NUM_GRAPHS and isinstance(batch, Batch):
        return batch.num_graphs
    if parameter.default is parameter.empty and not isinstance(batch, Batch):
        return _value_of_one(name, batch)
    return parameter.default


def _value_of_one(name: str, graph: BaseData) -> Any:
    """Return the vector `batch` or the number of graphs of a PyG `Data`.

    A `Data` without a field `batch` is one graph. For other names, return
    `Parameter.empty`.
    """
    if name in NUM_GRAPHS:
        return int(graph["batch"].max()) + 1 if "batch" in graph else 1
    if name != "batch":
        return Parameter.empty
    tensors = (v for v in graph.to_dict().values() if isinstance(v, Tensor))
    device = next((tensor.device for tensor in tensors), None)
    return torch.zeros(graph.num_nodes or 0, dtype=torch.long, device=device)


def _missing(name: str, batch: BaseData, model: nn.Module) -> OptionError:
    """Return the error about a batch without the field `name`.

    If the batch is padded, then the same batch without padding has the field, since the
    model is called with that batch first.
    """
    start = f"{type(model).__name__}.forward needs {name!r}"
    fields = batch.to_dict()
    inside = (*fields.values(), *vars(batch).values())
    if any(isinstance(value, RealCounts) for value in inside):
        return OptionError(f"{start}, a field that cannot be padded.")
    known = ", ".join(sorted(fields))
    return OptionError(f"{start}, but the batch has only {known}; {GIVE_CALL}")

"""Call any model with a PyG batch, and cast the model's weights for autocast."""

from collections.abc import Callable
from inspect import Parameter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch_geometric.data import Batch
from torch_geometric.data.data import BaseData
from torch_geometric.nn import Linear as PyGLinear

from gnnak.errors import EdgeAttrError, OptionError, kind_of
from gnnak.graphs.batch import GraphBatch
from gnnak.graphs.real import RealCounts
from gnnak.models.network import Network
from gnnak.nn.calling.signature import VARIADIC, arguments_of

NUM_GRAPHS = ("num_graphs", "batch_size")
GIVE_CALL = "give call=lambda model, batch: model(...)."
"""Advice in error messages if a batch has no field for a parameter of `forward`."""


def call_model(model: nn.Module, batch: Batch) -> Any:
    """Call a model with a batch, and return what the model returns.

    Each parameter of `forward` gets the field of the batch with the same name. A model
    with only one required parameter gets the whole batch if this parameter is called
    `batch` or is not the name of a field. If no parameter is required, the first
    parameter counts as required.
    """
    inside = _unwrapped(model)
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


def _unwrapped(model: nn.Module) -> nn.Module:
    wrapped = getattr(model, "_orig_mod", model)
    if isinstance(wrapped, nn.DataParallel):
        raise OptionError(
            "DataParallel splits the rows of a batch, and not its graphs; give the "
            "model inside, model.module, or use DistributedDataParallel."
        )
    inner = getattr(wrapped, "module", None)
    if not isinstance(inner, nn.Module):
        return wrapped
    # A wrapper's `forward` takes `*args` and `**kwargs` only.
    kinds = tuple(parameter.kind for parameter in arguments_of(wrapped))
    return _unwrapped(inner) if kinds == VARIADIC else wrapped


def _check_batch(batch: object, model: nn.Module) -> None:
    known = (BaseData, GraphBatch) if isinstance(model, Network) else BaseData
    if not isinstance(batch, known):
        raise OptionError(
            f"the step got {kind_of(batch)}; give a batch of a GraphLoader or of PyG's "
            "DataLoader: for batch in loader: step(batch)."
        )


def _takes_batch(parameters: list[Parameter], batch: Batch) -> bool:
    required = [p.name for p in parameters if p.default is p.empty]
    names = required or [p.name for p in parameters[:1]]
    if len(names) > 1:
        return False
    return names[0] == "batch" or names[0] not in batch


def _value(parameter: Parameter, batch: Batch) -> Any:
    """Return the value for a parameter of `forward`; `Parameter.empty` if unknown."""
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
    if name in NUM_GRAPHS:
        return int(graph["batch"].max()) + 1 if "batch" in graph else 1
    if name != "batch":
        return Parameter.empty
    tensors = (v for v in graph.to_dict().values() if isinstance(v, Tensor))
    device = next((tensor.device for tensor in tensors), None)
    return torch.zeros(graph.num_nodes or 0, dtype=torch.long, device=device)


def _missing(name: str, batch: BaseData, model: nn.Module) -> OptionError:
    start = f"{type(model).__name__}.forward needs {name!r}"
    fields = batch.to_dict()
    # The model was first called with the same batch without padding, which has `name`.
    inside = (*fields.values(), *vars(batch).values())
    if any(isinstance(value, RealCounts) for value in inside):
        return OptionError(f"{start}, a field that cannot be padded.")
    known = ", ".join(sorted(fields))
    return OptionError(f"{start}, but the batch has only {known}; {GIVE_CALL}")


LINEARS = (nn.Linear, PyGLinear)
"""Classes whose weights `CastTogether` casts. Subclasses are left out, since they may
change their weights."""


class CastTogether(TorchFunctionMode):
    """Context manager: under autocast, cast the weights of all Linears together."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        # By id of a weight: its version counter when it was cast, and the cast weight.
        self._cast: dict[int, tuple[int, Tensor]] = {}
        self._device = next(model.parameters()).device
        self._dtype = _autocast_dtype(self._device)
        if self._dtype is None:
            return
        weights = {
            id(weight): weight
            for module in model.modules()
            if type(module) in LINEARS
            for weight in module.parameters(recurse=False)
            if type(weight) is nn.Parameter
            and weight.requires_grad
            and weight.dtype == torch.float32
            and weight.device == self._device
        }
        if weights:
            found = _Cast.apply(self._dtype, *weights.values())
            versions = [weight._version for weight in weights.values()]
            pairs = zip(versions, found, strict=True)
            self._cast = dict(zip(weights, pairs, strict=True))

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        if func is F.linear and self._dtype == _autocast_dtype(self._device):
            args = tuple(map(self._replaced, args))
        return func(*args, **kwargs or {})

    def _replaced(self, value: Any) -> Any:
        version, cast = self._cast.get(id(value), (None, None))
        return value if cast is None or value._version != version else cast


def _autocast_dtype(device: torch.device) -> torch.dtype | None:
    if not torch.is_autocast_enabled(device.type):
        return None
    return torch.get_autocast_dtype(device.type)


class _Cast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.dtypes = [tensor.dtype for tensor in tensors]
        ctx.set_materialize_grads(False)
        return tuple(_cast(tensors, [dtype] * len(tensors)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        pairs = list(zip(grads, ctx.dtypes, strict=True))
        if torch.is_grad_enabled():
            # The gradients are to be differentiated again.
            return None, *(None if g is None else g.to(dtype) for g, dtype in pairs)
        given = [(grad, dtype) for grad, dtype in pairs if grad is not None]
        found = iter(_cast([g for g, _ in given], [dtype for _, dtype in given]))
        return None, *(None if grad is None else next(found) for grad in grads)


def _cast(tensors: Any, dtypes: list[torch.dtype]) -> list[Tensor]:
    found = [
        torch.empty_like(tensor, dtype=dtype)
        for tensor, dtype in zip(tensors, dtypes, strict=True)
    ]
    if found:
        torch._foreach_copy_(found, list(tensors))
    return found

"""Call any model with a PyG batch: with the whole batch, or with fields of the batch.

The names of the parameters of the model's `forward` decide.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from torch import nn

from gnnak.errors import OptionError
from gnnak.models.network import Network
from gnnak.nn.calling.signature import VARIADIC, arguments_of

if TYPE_CHECKING:
    from torch_geometric.data import Batch


def call_model(model: nn.Module, batch: Batch) -> Any:
    """Call a model with a batch, and return what the model returns.

    If the only parameter of `model.forward` without a default is no field of the batch,
    or is called `batch`, the model gets the whole batch. Otherwise each parameter gets
    the field of its name: `x`, `edge_index`, `edge_attr`, `batch` and so on. The
    parameters `num_graphs` and `batch_size` get the number of graphs.

    Raises:
        OptionError: If the batch has no field for a parameter without a default.
    """
    inside = _inside(model)
    parameters = [p for p in arguments_of(inside) if p.kind not in VARIADIC]
    if isinstance(inside, Network) or _takes_batch(parameters, batch):
        return model(batch)
    given = {p.name: _value(p.name, batch) for p in parameters if _has(p.name, batch)}
    for parameter in parameters:
        if parameter.default is parameter.empty and parameter.name not in given:
            known = ", ".join(batch.keys())
            raise OptionError(
                f"{type(inside).__name__}.forward needs {parameter.name!r}, but the "
                f"batch has only {known}; give call=lambda model, batch: model(...)."
            )
    return model(**given)


def _inside(model: nn.Module) -> nn.Module:
    """Return the user's module inside a wrapper such as DDP or `torch.compile`."""
    wrapped = getattr(model, "_orig_mod", model)
    if isinstance(wrapped, nn.parallel.DistributedDataParallel):
        return wrapped.module
    return wrapped


def _takes_batch(parameters: list[inspect.Parameter], batch: Batch) -> bool:
    """Return whether a model with these parameters gets the whole batch."""
    required = [p.name for p in parameters if p.default is p.empty]
    names = required or [p.name for p in parameters[:1]]
    if len(names) > 1:
        return False
    return not names or names[0] == "batch" or names[0] not in batch


def _has(name: str, batch: Batch) -> bool:
    """Return whether `_value` returns a value for the parameter `name`."""
    return name in batch or name in ("num_graphs", "batch_size", "num_nodes")


def _value(name: str, batch: Batch) -> Any:
    """Return the field of a batch with the name of a parameter, or a number of it."""
    if name in batch:
        return batch[name]
    return batch.num_nodes if name == "num_nodes" else batch.num_graphs

"""Cast the weights of all Linears to the dtype of autocast together.

With autocast, PyTorch launches one small kernel per weight and bias, and another one
per gradient. Launching these kernels takes longer than running them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch_geometric.nn import Linear as PyGLinear

LINEARS = (nn.Linear, PyGLinear)
"""The modules whose weights are cast together. Their subclasses may change weights
before they use them, so they are not included."""


class CastTogether(TorchFunctionMode):
    """Context manager: with autocast, weights of Linears are cast by a single call.

    `torch.nn.functional.linear` gets the cast weights; every other function gets the
    weights themselves. Values and gradients are those of autocast. As with autocast's
    cache, a weight that is used several times is cast once, and its gradients are
    summed in autocast's dtype. Without autocast, this context manager does nothing.

    Args:
        model: The model that is called in the `with` block.
    """

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
            if _can_cast(weight, self._device)
        }
        if weights:
            found = _Cast.apply(self._dtype, *weights.values())
            versions = [weight._version for weight in weights.values()]
            pairs = zip(versions, found, strict=True)
            self._cast = dict(zip(weights, pairs, strict=True))

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Call `func`; if it is `linear`, with the cast weights.

        The model may have changed autocast, or a weight, since the weights were cast.
        """
        if func is F.linear and self._dtype == _autocast_dtype(self._device):
            args = tuple(map(self._replaced, args))
        return func(*args, **kwargs or {})

    def _replaced(self, value: Any) -> Any:
        """Return the cast form of a weight, and anything else unchanged."""
        version, cast = self._cast.get(id(value), (None, None))
        return value if cast is None or value._version != version else cast


def _autocast_dtype(device: torch.device) -> torch.dtype | None:
    """Return the dtype that autocast uses on a device; None if autocast is off."""
    if not torch.is_autocast_enabled(device.type):
        return None
    return torch.get_autocast_dtype(device.type)


def _can_cast(weight: nn.Parameter, device: torch.device) -> bool:
    """Return whether a weight is trained, in float32 and on a device.

    Frozen weights are left to autocast, so that no gradient flows through them.
    """
    plain = type(weight) is nn.Parameter and weight.requires_grad
    return plain and weight.dtype == torch.float32 and weight.device == device


class _Cast(torch.autograd.Function):
    """Autograd function that casts several tensors to one dtype."""

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
    """Return tensors in other dtypes, with one kernel for all of them on a GPU."""
    found = [
        torch.empty_like(tensor, dtype=dtype)
        for tensor, dtype in zip(tensors, dtypes, strict=True)
    ]
    if found:
        torch._foreach_copy_(found, list(tensors))
    return found

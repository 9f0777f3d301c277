"""Compare the gradients of a model's weights with and without padding.

Padding rows get no gradient from the loss. But a division by a feature that is zero in
padding rows makes 0 * inf = NaN of it, which adds up with the gradients of real rows.
Modules with hooks, or with `detach()`, may also change gradients and no outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from gnnak.training.own_loop.changes import built_weights
from gnnak.training.own_loop.dtypes import is_inexact, real_dtype

TOLERANCES = {torch.double: 1e-6, torch.float: 0.02}
"""Largest allowed norm of a difference by dtype, relative to the norm of the gradient
plus `FLOOR` times the norm of all gradients. Rounding errors change the sign of some
inputs of ReLUs, so they change gradients more than outputs. For other dtypes, and with
autocast, only NaN and infinity are differences."""
FLOOR = 1e-2
"""See `TOLERANCES`: some gradients are zero but for rounding, such as that of a bias
before a BatchNorm."""


class GradientComparison:
    """Computes the gradients of a model's weights in two calls, and compares them.

    Both calls get the same random numbers as gradients of the outputs. These are
    positive, since others would hide means over all rows.

    Args:
        model: The model.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        weights = {id(weight) for weight in built_weights(model)}
        self._weights = {
            name: weight
            for name, weight in model.named_parameters()
            if weight.requires_grad and id(weight) in weights
        }
        self._of_outputs: list[Tensor] | None = None

    def call(self, run: Callable[[], Any]) -> tuple[Any, list[Tensor]]:
        """Call a model by a function, and run a backward pass.

        Returns:
            The outputs, and the gradient of each weight.
        """
        with torch.enable_grad():
            outputs = run()
            leaves = [out for out in tree_leaves(outputs) if _has_gradient(out)]
            if self._of_outputs is None:
                self._of_outputs = [torch.rand_like(out) + 0.5 for out in leaves]
            pairs = zip(leaves, self._of_outputs, strict=False)
            total = sum((out * factor.conj()).real.sum() for out, factor in pairs)
        weights = list(self._weights.values())
        if not isinstance(total, Tensor):
            return outputs, [torch.zeros_like(weight) for weight in weights]
        # Another thread would allocate a cuBLAS workspace of its own, of 32 MB.
        with torch.autograd.set_multithreading_enabled(False):
            found = torch.autograd.grad(total, weights, materialize_grads=True)
        return outputs, [each.to_dense() for each in found]

    def difference(self, wanted: list[Tensor], found: list[Tensor]) -> str | None:
        """Say which gradient differs between two calls; None if none does.

        Args:
            wanted: The gradients of the call without padding, as returned by `call`.
            found: The gradients of the call with padding.
        """
        finite = [each for each in wanted if each.isfinite().all()]
        size = sum(float(each.norm()) ** 2 for each in finite) ** 0.5
        for name, one, other in zip(self._weights, wanted, found, strict=True):
            if not one.isfinite().all():
                continue
            if not other.isfinite().all():
                return (
                    f"padding makes the gradient of {name} infinite or NaN; features "
                    "are zero in padding rows, so add a small number before you divide "
                    "by them or take their logarithm"
                )
            tolerance = _tolerance(one)
            if tolerance is None:
                continue
            allowed = tolerance * (float(one.norm()) + FLOOR * size)
            if float((one - other).norm()) > allowed:
                return f"padding changes the gradient of {name}"
        return None


def _has_gradient(output: object) -> bool:
    """Return whether an output is a tensor through which gradients flow."""
    return isinstance(output, Tensor) and is_inexact(output) and output.requires_grad


def _tolerance(gradient: Tensor) -> float | None:
    """Return the largest allowed difference of a gradient; None if any is allowed."""
    if torch.is_autocast_enabled(gradient.device.type):
        return None
    return TOLERANCES.get(real_dtype(gradient))

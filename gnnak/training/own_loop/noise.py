"""Add random numbers to the weights and buffers of a model for a short time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gnnak.training.own_loop.changes import built_weights
from gnnak.training.own_loop.dtypes import is_inexact

NOISE = 0.3
"""Size of the random numbers that are added to weights for a second comparison. They
are divided by the square root of the number of inputs of a Linear."""


class SavedWeights:
    """The weights of a model, to be restored after the model was compared.

    Memory addresses and version counters of the weights do not change. Weights whose
    elements share memory are left out.

    Args:
        model: The model.
    """

    def __init__(self, model: nn.Module) -> None:
        every = [weight.data for weight in built_weights(model)]
        self._weights = [w for w in every if is_inexact(w) and _is_plain(w)]
        self._saved = [weight.clone() for weight in self._weights]

    def have_changed(self) -> bool:
        """Return whether a weight has other values than at the beginning."""
        pairs = zip(self._weights, self._saved, strict=True)
        return not all(torch.equal(now, before) for now, before in pairs)

    def add_noise(self) -> None:
        """Add random numbers to all weights."""
        for weight in self._weights:
            inputs = weight[0].numel() if weight.dim() > 1 and len(weight) else 1
            dtype = torch.cfloat if weight.is_complex() else torch.float
            noise = torch.randn_like(weight, dtype=dtype)
            weight.add_(noise.mul_(NOISE / max(inputs, 1) ** 0.5))

    def restore(self) -> None:
        """Give all weights the values that they had at the beginning."""
        for weight, values in zip(self._weights, self._saved, strict=True):
            weight.copy_(values)


def add_noise(buffers: Iterable[Tensor]) -> None:
    """Add positive random numbers to all floating-point and complex buffers.

    They are positive because some buffers, such as variances, must be. For complex
    buffers, they are added to the real parts.
    """
    for buffer in buffers:
        if not is_lazy(buffer) and is_inexact(buffer) and _is_plain(buffer):
            noise = torch.randn_like(buffer, dtype=torch.float)
            buffer.data.add_(noise.abs_().mul_(NOISE))


def _is_plain(weight: Tensor) -> bool:
    """Return whether a tensor can be changed in place: no two elements are one."""
    strides = zip(weight.shape, weight.stride(), strict=True)
    overlapping = any(size > 1 and not stride for size, stride in strides)
    return (
        weight.dtype.itemsize > 1 and weight.device.type != "meta" and not overlapping
    )


@contextmanager
def weights_restored(model: nn.Module) -> Iterator[SavedWeights]:
    """Context manager: at the end, all weights of a model are restored."""
    weights = SavedWeights(model)
    try:
        yield weights
    finally:
        weights.restore()

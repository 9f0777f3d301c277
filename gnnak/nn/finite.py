"""Warn about NaN and infinite inputs; all outputs that depend on them are useless."""

import math
import warnings

import torch
from torch import Tensor


def is_finite(values: Tensor | None) -> bool:
    """Return whether no value is NaN or infinite; synchronises on a GPU.

    True if `values` is None or has whole numbers, and while a CUDA graph is captured.

    Args:
        values: Numbers of any shape.

    >>> is_finite(torch.tensor([1.0, 2.0])), is_finite(torch.tensor([1.0, torch.nan]))
    (True, False)
    """
    if values is None or not values.is_floating_point() or values.is_meta:
        return True
    if values.is_cuda and torch.cuda.is_current_stream_capturing():
        return True
    values = values.detach()
    # A sum is faster than a test of every number. A finite sum means that all numbers
    # are finite. If the sum is not finite, it may have overflowed: test every number.
    return math.isfinite(values.sum().item()) or bool(values.isfinite().all())


def warn_not_finite(name: str, values: Tensor, stacklevel: int = 2) -> None:
    """Warn that a tensor has values that are NaN or infinite; name the first of them.

    Args:
        name: What the values are, for the message.
        values: Numbers of any shape, of which at least one is not finite.
        stacklevel: Number of frames between the warning and the code to blame; see
            `warnings.warn`.
    """
    wrong = (~values.detach().isfinite()).nonzero()
    first = wrong[0].tolist()
    warnings.warn(
        f"{name} has {len(wrong)} values that are NaN or infinite, the first at index "
        f"{first}: {float(values[tuple(first)])}; every output that depends on them "
        "becomes NaN or infinite too, so replace them first. Warned once per model.",
        stacklevel=stacklevel + 1,
    )

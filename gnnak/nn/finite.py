"""Warn about NaN and infinite inputs; all outputs that depend on them are useless."""

import math
import warnings
from typing import TypeGuard

import torch
from torch import Tensor


def is_finite(*tensors: Tensor | None) -> bool:
    """Return whether no value is NaN or infinite; synchronises on a GPU, once.

    Tensors that are None or have whole numbers count as finite, and so do all tensors
    on a GPU while a CUDA graph is captured.

    Args:
        tensors: Numbers of any shape.

    >>> is_finite(torch.tensor([1.0, 2.0])), is_finite(torch.tensor([1.0, torch.nan]))
    (True, False)
    """
    checked = [values.detach() for values in tensors if _can_check(values)]
    if not checked:
        return True
    # A sum is faster than a test of every number. A finite sum means that all numbers
    # are finite. If the sum is not finite, it may have overflowed: test every number.
    total = checked[0].sum()
    for values in checked[1:]:
        total = total + values.sum().to(total.device)
    if math.isfinite(total.item()):
        return True
    return all(bool(values.isfinite().all()) for values in checked)


def _can_check(values: Tensor | None) -> TypeGuard[Tensor]:
    """Return whether a tensor can have a value that is NaN or infinite, and be read."""
    if values is None or not values.is_floating_point() or values.is_meta:
        return False
    return not (values.is_cuda and torch.cuda.is_current_stream_capturing())


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

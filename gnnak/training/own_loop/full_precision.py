"""Compute in full precision where rounding errors would look like differences."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch


@contextmanager
def full_precision() -> Iterator[None]:
    """Context manager: matrix products on a GPU do not use TF32.

    TF32 rounds inputs to 10 bits. After a few layers, a rounding error of float32 that
    changes such a bit is a difference of some thousandths.
    """
    change, within, after = _setting()
    if within == after:
        yield
        return
    change(within)
    try:
        yield
    finally:
        change(after)


def _setting() -> tuple[Callable[[Any], object], Any, Any]:
    """Return a function that changes a setting, its value without TF32, and its value.

    PyTorch has three settings that allow TF32. It raises an error if one is read that
    contradicts another, so use the one that the user has chosen.
    """
    matmul: Any = torch.backends.cuda.matmul
    try:
        before = torch.get_float32_matmul_precision()
        return torch.set_float32_matmul_precision, "highest", before
    except RuntimeError:
        pass
    try:
        return partial(setattr, matmul, "allow_tf32"), False, matmul.allow_tf32
    except RuntimeError:
        backends: Any = torch.backends
        before = matmul.fp32_precision
        if before == backends.fp32_precision:
            before = "none"  # the setting follows that of all products
        return partial(setattr, matmul, "fp32_precision"), "ieee", before

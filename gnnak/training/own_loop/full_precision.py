"""Compute in full precision where rounding errors would look like differences."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def full_precision() -> Iterator[None]:
    """Context manager: products and convolutions on a GPU do not use TF32.

    TF32 rounds inputs to 10 bits. After a few layers, a rounding error of float32 that
    changes such a bit is a difference of some thousandths.
    """
    backends: Any = torch.backends
    settings = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn)
    before = [setting.fp32_precision for setting in settings]
    for setting in settings:
        setting.fp32_precision = "ieee"
    try:
        yield
    finally:
        for setting, value in zip(settings, before, strict=True):
            setting.fp32_precision = value

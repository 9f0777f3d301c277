"""Data types of tensors whose values have rounding errors."""

import torch
from torch import Tensor


def is_inexact(tensor: Tensor) -> bool:
    """Return whether a tensor has real or complex floating-point numbers.

    >>> is_inexact(torch.ones(2) * 1j), is_inexact(torch.arange(2))
    (True, False)
    """
    return tensor.is_floating_point() or tensor.is_complex()


def real_dtype(tensor: Tensor) -> torch.dtype:
    """Return the dtype of a tensor's real numbers, or of real and imaginary parts.

    >>> real_dtype(torch.ones(2, dtype=torch.cdouble))
    torch.float64
    """
    return tensor.dtype.to_real() if tensor.is_complex() else tensor.dtype

"""Convert the numpy arrays of an npz file to tensors, and back."""

import numpy as np
import torch
from torch import Tensor

from gnnak.errors import GraphError

LARGEST = np.iinfo(np.int64).max


def to_tensor(key: str, array: np.ndarray, whole: bool) -> Tensor:
    """Copy a numpy array to a tensor; integers and bools become int64.

    The dtype of floating-point numbers does not change.

    Args:
        key: Name of the array in error messages.
        array: Integers, bools or floating-point numbers of up to 64 bits.
        whole: Whether only arrays of integers are accepted; if False, also arrays of
            bools or floating-point numbers.

    Raises:
        GraphError: If the dtype is not accepted, or an integer does not fit into int64.

    >>> to_tensor("x", np.array([[3], [1]], np.uint8), whole=False)
    tensor([[3],
            [1]])
    """
    if whole and array.dtype.kind not in "iu":
        raise GraphError(f"{key} has dtype {array.dtype}; write integers.")
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))
    if array.dtype.kind not in "iub":
        raise GraphError(f"{key} has dtype {array.dtype}; write numbers.")
    if array.dtype.kind == "u" and array.size and array.max() > LARGEST:
        raise GraphError(f"{key} contains {array.max()}, too large for int64.")
    return torch.from_numpy(array.astype(np.int64))


def to_array(key: str, tensor: Tensor) -> np.ndarray:
    """Convert a tensor to a numpy array for a file.

    Integers get the smallest integer dtype that can represent them.

    Args:
        key: Name of the tensor in error messages.
        tensor: The tensor, on any device.

    Raises:
        GraphError: If the tensor is bfloat16 or complex.

    >>> to_array("x", torch.tensor([3, 300])).dtype
    dtype('uint16')
    """
    if tensor.dtype == torch.bfloat16 or tensor.is_complex():
        raise GraphError(f"{key} has dtype {tensor.dtype}; convert it with .float().")
    array = tensor.detach().cpu().numpy()
    if array.dtype.kind == "f":
        return array
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    if low >= 0:
        return array.astype(np.min_scalar_type(high))
    return array.astype(np.min_scalar_type(min(low, -high - 1)))


def to_flag(key: str, array: np.ndarray | None) -> bool:
    """Convert an array with a single bool to a Python bool.

    Args:
        key: Name of the array in error messages.
        array: The array; None if the file does not contain the array, for which the
            result is False.

    Raises:
        GraphError: If the array is not a single bool.
    """
    if array is None:
        return False
    if array.dtype.kind != "b" or array.size != 1:
        raise GraphError(
            f"{key} has dtype {array.dtype} and shape {list(array.shape)}; write one "
            "bool."
        )
    return bool(array.item())


def to_names(key: str, array: np.ndarray) -> tuple[str, ...]:
    """Convert a one-dimensional array of strings to a tuple of strings.

    Args:
        key: Name of the array in error messages.
        array: The array.

    Raises:
        GraphError: If the array does not contain strings or is not one-dimensional.
    """
    if array.dtype.kind != "U" or array.ndim != 1:
        raise GraphError(
            f"{key} has dtype {array.dtype} and shape {list(array.shape)}; write one "
            "row of strings."
        )
    return tuple(array.tolist())

"""Between the arrays of a file and the tensors of a store."""

import numpy as np
import torch
from torch import Tensor

from gnnak.errors import GraphError

LARGEST = np.iinfo(np.int64).max


def to_tensor(key: str, array: np.ndarray, whole: bool) -> Tensor:
    """A tensor of its own with the numbers of `array`.

    Args:
        key: How a sentence calls the array.
        array: Bools or whole numbers, which become int64, or other real numbers,
            which keep their type.
        whole: Refuse all but whole numbers.

    Raises:
        GraphError: If the array holds something else.

    >>> to_tensor("x", np.array([[3], [1]], np.uint8), whole=False)
    tensor([[3],
            [1]])
    """
    if whole and array.dtype.kind not in "iu":
        raise GraphError(f"{key} has dtype {array.dtype}; write whole numbers.")
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))
    if array.dtype.kind not in "iub":
        raise GraphError(f"{key} has dtype {array.dtype}; write numbers.")
    if array.dtype.kind == "u" and array.size and array.max() > LARGEST:
        raise GraphError(f"{key} holds {array.max()}, too large for int64.")
    return torch.from_numpy(array.astype(np.int64))


def to_array(key: str, tensor: Tensor) -> np.ndarray:
    """The numbers of `tensor`, whole ones in as few bytes as they need.

    Raises:
        GraphError: If numpy has no such type.

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
    """One bool; false if the key is absent.

    Raises:
        GraphError: If the array is not one bool.
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
    """The strings of an array.

    Raises:
        GraphError: If the array is not one row of strings.
    """
    if array.dtype.kind != "U" or array.ndim != 1:
        raise GraphError(
            f"{key} has dtype {array.dtype} and shape {list(array.shape)}; write one "
            "row of strings."
        )
    return tuple(array.tolist())

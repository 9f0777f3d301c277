"""Convert any kind of index (int, slice, list, mask) to an int64 tensor."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gnnak.errors import GraphError

Indices = int | slice | Sequence[int] | Sequence[bool] | np.ndarray | Tensor
"""What can select graphs: an int, a slice, or a list, array or tensor of ints or
bools."""

KINDS = "an int, a slice, a list, or a tensor of bools or ints"


def as_indices(indices: Indices, size: int) -> Tensor:
    """Convert `indices` to an int64 tensor of k positions in 0..size-1, [k].

    Args:
        indices: An int (one position), a slice, a boolean mask [size], or a list, array
            or tensor of ints. Negative ints count from the end, positions may repeat,
            and their order is preserved.
        size: Number of graphs that can be selected.

    Raises:
        GraphError: If a position is out of range or `indices` has another type.

    >>> as_indices([-1, 0, 0], 5)
    tensor([4, 0, 0])
    >>> as_indices(slice(1, None, 2), 5)
    tensor([1, 3])
    >>> as_indices(7, 5)
    Traceback (most recent call last):
    gnnak.errors.GraphError: index 7 is out of range; there are 5 graphs.
    """
    chosen = (
        _from_slice(indices, size) if isinstance(indices, slice) else _flat(indices)
    )
    if chosen.dtype == torch.bool:
        if chosen.numel() != size:
            raise GraphError(
                f"the mask has {chosen.numel()} entries; give {size}, one per graph."
            )
        return chosen.nonzero().flatten()
    chosen = chosen.long()
    if not chosen.numel():
        return chosen
    low, high = (int(value) for value in chosen.aminmax())
    if low < -size or high >= size:
        wrong = low if low < -size else high
        raise GraphError(f"index {wrong} is out of range; there are {size} graphs.")
    return torch.where(chosen < 0, chosen + size, chosen) if low < 0 else chosen


def indices_at(
    indices: Indices, size: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Convert `indices` to int64 positions, both on the host and on `device`.

    The transfer to the device does not synchronise.

    Args:
        indices: An int, a slice, a boolean mask, or a list, array or tensor of ints, as
            in `as_indices`.
        size: Number of graphs that can be selected.
        device: The device of the second result.

    Returns:
        The same positions twice, [k]: on the host and on `device`.
    """
    chosen = as_indices(indices, size)
    host = chosen.cpu()
    there = chosen if chosen.device == device else host.to(device, non_blocking=True)
    return host, there


def _from_slice(part: slice, size: int) -> Tensor:
    try:
        span = range(size)[part]
    except (TypeError, ValueError) as error:
        raise GraphError(f"{part} cannot select graphs: {error}.") from error
    if not span:
        return torch.empty(0, dtype=torch.long, device="cpu")
    return torch.arange(span.start, span.stop, span.step, device="cpu")


def _flat(indices: object) -> Tensor:
    """Convert an int, or a list, array or tensor of ints or bools, to a vector.

    Raises:
        GraphError: If `indices` is anything else, or has more than one dimension.
    """
    # PyTorch would move tensors to the default device, if a user has set one.
    device = indices.device if isinstance(indices, Tensor) else torch.device("cpu")
    try:
        chosen = torch.as_tensor(indices, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(indices).__name__
        raise GraphError(f"this {kind} cannot select graphs; give {KINDS}.") from error
    if chosen.dim() == 0 and chosen.dtype != torch.bool:
        chosen = chosen.reshape(1)
    if not chosen.numel() and chosen.is_floating_point():
        chosen = chosen.long()
    if chosen.dim() != 1 or chosen.is_floating_point() or chosen.is_complex():
        raise GraphError(
            f"a {chosen.dtype} tensor of shape {list(chosen.shape)} cannot select "
            f"graphs; give {KINDS}, with one dimension."
        )
    return chosen

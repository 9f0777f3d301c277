"""Gather rows by index, and sum or average rows that share an index."""

from torch import Tensor

from gnnak.backend import operation
from gnnak.typing import Reduce


@operation
def lookup(table: Tensor, index: Tensor) -> Tensor:
    """Gather the rows `index` [m] of a small table [k, c], as [m, c].

    Separate from other gathers because a backend can speed up its backward pass, which
    sums very many gradients into few rows.
    """
    return table.index_select(0, index)


def segment_reduce(values: Tensor, index: Tensor, size: int, reduce: Reduce) -> Tensor:
    """Sum or average the rows of `values` [m, c] that share an index, as [size, c].

    Output rows that `index` does not contain are zero. Half-precision rows are summed
    in float32.

    >>> import torch
    >>> rows = torch.tensor([[1.0], [2.0], [6.0]])
    >>> segment_reduce(rows, torch.tensor([0, 2, 2]), 4, "mean").flatten()
    tensor([1., 0., 4., 0.])
    """
    wide = values.float() if values.dtype.itemsize < 4 else values
    pooled = wide.new_zeros(size, wide.size(1)).index_add(0, index, wide)
    if reduce == "mean":
        count = wide.new_zeros(size).index_add(0, index, wide.new_ones(index.numel()))
        pooled = pooled / count.clamp(min=1)[:, None]
    return pooled.to(values.dtype)

"""Gathers and segment reductions: the only place that knows how they are made fast."""

from torch import Tensor

from gnnak.typing import Reduce


def gather(values: Tensor, index: Tensor) -> Tensor:
    """Rows of `values` [r, c] named by `index` [m], as [m, c]."""
    return values.index_select(0, index)


def lookup(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a small table [k, c], each named many times by `index` [m], as [m, c]."""
    return table.index_select(0, index)


def segment_reduce(values: Tensor, index: Tensor, size: int, reduce: Reduce) -> Tensor:
    """Sum or mean of the rows of `values` [m, c] that share an index, as [size, c].

    Rows that no index names are zero. Half-precision rows are summed in float32.

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

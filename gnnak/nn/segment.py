"""Gather rows by index, and sum or average rows that share an index."""

from torch import Tensor
from torch.nn import functional as F

from gnnak.backend import operation
from gnnak.typing import Reduce


@operation
def lookup(table: Tensor, index: Tensor) -> Tensor:
    """Gather rows of a small table, such as a table of embeddings.

    A backend can replace this function by one with a faster backward pass, which sums
    very many gradients into few rows.

    Args:
        table: The table, with few rows and c columns.
        index: The row to gather for each of the m output rows, [m].

    Returns:
        The gathered rows, [m, c].
    """
    return table.index_select(0, index)


@operation
def embed_rows(table: Tensor, index: Tensor) -> Tensor:
    """Look up embeddings, as `torch.nn.functional.embedding` does.

    A backend can replace this function by one with a faster backward pass for small
    tables.

    Args:
        table: The embeddings, one row for each of k categories, [k, c].
        index: The categories to look up, of any shape [...].

    Returns:
        The embeddings, [..., c].
    """
    return F.embedding(index, table)


def segment_reduce(values: Tensor, index: Tensor, size: int, reduce: Reduce) -> Tensor:
    """Sum or average the rows of `values` that have the same index.

    Half-precision rows are summed in float32.

    Args:
        values: The rows, [m, c].
        index: The output row that each row of `values` is added to, [m].
        size: Number of output rows.
        reduce: "sum" or "mean".

    Returns:
        The sums or means, [size, c]; zero in rows that `index` does not contain.

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

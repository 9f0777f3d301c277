"""Which rows of a batch of fixed size are real, told to the norms."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor

_counts: Mapping[int, Tensor] = {}


@contextmanager
def real_rows(counts: Mapping[int, Tensor]) -> Iterator[None]:
    """Inside, norms in training are blind to the padding of a batch.

    Of an input with R rows, R a key of `counts`, the first `counts[R]` rows make the
    statistics; the padding behind them comes out as if it were their mean, and so
    never grows from layer to layer. Which rows are real is asked on the device alone.
    Batches are padded in runs of one process only: over several, all rows are real.

    Args:
        counts: From a number of rows to how many of them are real, each a 0-dim int64
            tensor on the device of the rows.

    >>> import torch
    >>> from gnnak.nn.norm import BatchNorm
    >>> norm = BatchNorm(1)
    >>> with real_rows({3: torch.tensor(2)}):
    ...     rows = norm(torch.tensor([[-1.0], [1.0], [5.0]]))
    >>> [round(row, 3) for row in rows.flatten().tolist()]
    [-1.0, 1.0, 0.0]
    """
    global _counts
    before, _counts = _counts, counts
    try:
        yield
    finally:
        _counts = before


def current_real_rows() -> Mapping[int, Tensor]:
    """What the innermost `real_rows` was given; nothing outside of all."""
    return _counts

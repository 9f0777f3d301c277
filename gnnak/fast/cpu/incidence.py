"""Products with sparse matrices of zeros and ones: gathers and segment sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnnak.subgraphs.groups import group


class Ones(NamedTuple):
    """Where the ones of a sparse matrix of zeros and ones are, row by row."""

    columns: Tensor
    """[q]: the column of each one, sorted by row."""
    ptr: Tensor | None = None
    """[r + 1]: where each of the r rows begins in `columns`. None means that each row
    has exactly one 1; a product then only gathers rows."""

    @property
    def num_rows(self) -> int:
        """Number of rows, r."""
        return (self.columns if self.ptr is None else self.ptr[1:]).numel()


@dataclass(frozen=True, eq=False)
class Incidence:
    """A sparse matrix of zeros and ones, [r, k], and its transpose."""

    ones: Ones
    """The ones of each row."""
    transposed: Ones
    """The ones of each column: row numbers, sorted by column."""

    def __matmul__(self, values: Tensor) -> Tensor:
        """Multiply with a dense matrix [k, c]; the gradient needs no atomic additions.

        Returns:
            For each row of the matrix, the sum of the rows of `values` at its ones, as
            [r, c].
        """
        return _Product.apply(values, self)

    @property
    def T(self) -> Incidence:  # noqa: N802 (as in PyTorch)
        """The transposed matrix, [k, r]."""
        return Incidence(self.transposed, self.ones)


def gather_matrix(index: Tensor, size: int, in_order: bool = False) -> Incidence:
    """Return the matrix whose product with `values`, [size, c], is `values[index]`.

    Args:
        index: The rows to gather, [r].
        size: Number of rows of `values`.
        in_order: Whether `index` is sorted.
    """
    groups = group(index, size, in_order)
    order = groups.order
    if order is None:
        order = torch.arange(index.numel(), device=index.device)
    return Incidence(Ones(index), Ones(order, groups.ptr))


class _Product(torch.autograd.Function):
    """Autograd function of the product, also for `torch.func`."""

    @staticmethod
    def forward(values: Tensor, matrix: Incidence) -> Tensor:
        columns, ptr = matrix.ones
        if ptr is None:
            return values.index_select(0, columns)
        if not columns.numel():
            return values.new_zeros(matrix.ones.num_rows, values.size(1))
        return torch.embedding_bag(
            values.contiguous(), columns, ptr, include_last_offset=True
        )[0]

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, Incidence], output: Tensor
    ) -> None:
        ctx.matrix = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.T @ grad, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return ctx.matrix @ tangent

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], values: Tensor, matrix: Incidence
    ) -> tuple[Tensor, int]:
        # Treat the batch of b matrices [k, c] as one matrix [k, c b].
        assert in_dims[0] is not None
        rows = values.movedim(in_dims[0], -1)
        product = matrix @ rows.flatten(1)
        return product.view(matrix.ones.num_rows, *rows.shape[1:]), 2

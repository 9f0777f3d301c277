"""Gated sums over groups of rows: the PyTorch reference of the Triton kernels.

A gate is a row of factors, looked up in a small table. There is a row of states for
each node copy (a node as it occurs in one rooted subgraph).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gnnak.fast.kernels.plain.gather import sum_by, table_sum
from gnnak.fast.kernels.records import CentroidRows, GatedGrad, GatedSum


def gated_sums(values: Tensor, sums: Sequence[GatedSum], rows: Tensor) -> list[Tensor]:
    """Sum rows `table[rows[i]] * values[i]` by group, for one or two groupings.

    Args:
        values: The rows to multiply and sum, [m, c].
        sums: For each grouping, its gates and groups.
        rows: For each of the m rows, its row of the tables, [m].

    Returns:
        For each grouping, one sum per group, [k, c].
    """
    return [
        sum_by(
            values if table is None else table.index_select(0, rows) * values, groups
        )
        for table, groups in sums
    ]


def gated_sums_backward(
    values: Tensor,
    sums: Sequence[GatedGrad],
    rows: Tensor,
    centroids: CentroidRows | None,
) -> tuple[Tensor, list[Tensor | None]]:
    """Compute the gradients of one or two sums, and of the centroids' rows.

    Args:
        values: The rows that were summed, [m, c].
        sums: For each of the sums, its gradient, its gates, and the group of each row.
            All tables of gates have the same number of rows.
        rows: For each of the m rows, its row of the tables, [m].
        centroids: Gradients to add to the rows of centroids; None = add nothing.

    Returns:
        The gradient of `values`, [m, c], and of the table of each sum, [t, c]; None for
        a sum without gates.
    """
    total = torch.zeros_like(values)
    tables: list[Tensor | None] = []
    for grad, table, key in sums:
        back = grad.index_select(0, key)
        if table is None:
            tables.append(None)
            total += back
        else:
            tables.append(table_sum(back * values, rows, table.size(0)).to(table.dtype))
            total += table.index_select(0, rows) * back
    if centroids is not None:
        total = total.index_add(0, centroids.centroid, centroids.values)
    return total, tables

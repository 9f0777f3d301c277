"""Gathers and segment sums, the plain PyTorch reference."""

import torch
from torch import Tensor

from gnnak.subgraphs.groups import Groups


def lift(x: Tensor, table: Tensor | None, node: Tensor, rows: Tensor) -> Tensor:
    """Gather and concatenate, `[x[node] || table[rows]]`, as [m, c + h].

    This copies every node state into the rooted subgraphs that contain the node and
    appends the embedding of the copy's hop.

    Args:
        x: Node states, [n, c].
        table: A small embedding table, [t, h]; None = gather `x` alone.
        node: For each copy its row of `x`, [m].
        rows: For each copy its row of `table`, [m].
    """
    copies = x.index_select(0, node)
    if table is None:
        return copies
    return torch.cat([copies, table.index_select(0, rows)], dim=1)


def sum_by(values: Tensor, groups: Groups) -> Tensor:
    """Return the segment sum of the rows of `values` [m, c], as [k, c] for k groups."""
    key, row = group_members(groups)
    out = values.new_zeros(len(groups), values.size(1))
    return out.index_add(0, key, values.index_select(0, row))


def weighted_sum(
    values: Tensor, index: Tensor, weight: Tensor, groups: Groups
) -> Tensor:
    """Return for each group the sum of `weight[q] * values[index[q]]`, as [k, c].

    The sum runs over the entries q of the group, so this multiplies a sparse matrix in
    CSR form with the dense matrix `values`.

    Args:
        values: Rows to sum, [r, c].
        index: The row of `values` that each entry refers to, [q].
        weight: The factor of each entry, [q].
        groups: The entries of each group; k groups.
    """
    share = weight.to(values.dtype)[:, None] * values.index_select(0, index)
    return sum_by(share, groups)


def table_sum(values: Tensor, rows: Tensor, size: int) -> Tensor:
    """Sum the rows of `values` [m, c] that belong to one table row, as [size, c].

    This is the gradient of `table[rows]` for a table of few rows.

    Args:
        values: The gradient of the gathered rows, [m, c].
        rows: The table row of each of them, [m].
        size: Number of rows of the table.
    """
    return values.new_zeros(size, values.size(1)).index_add(0, rows, values)


def group_members(groups: Groups) -> tuple[Tensor, Tensor]:
    """Expand the CSR form: return a group number and a row number per grouped row.

    Both have one entry per row that is in a group, sorted by group; padding rows are in
    no group.
    """
    counts = groups.ptr.diff()
    key = torch.arange(len(groups), device=counts.device).repeat_interleave(counts)
    row = torch.arange(key.numel(), device=counts.device)
    return key, row if groups.order is None else groups.order[: key.numel()]

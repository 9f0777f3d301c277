"""Gathers, segment sums, gated sums and tables of distances: the PyTorch reference."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gnnak.fast.kernels.records import CentroidRows, GatedGrad, GatedSum, HopLinears
from gnnak.subgraphs.groups import Groups


def lift(
    x: Tensor,
    table: Tensor | None,
    node: Tensor,
    rows: Tensor,
    add: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Gather rows of two tensors and concatenate them: `[x[node] || table[rows]]`.

    The result has one row per node copy (a node as seen in one rooted subgraph): the
    state of the node, and an embedding of the hop (the distance from the root).

    Args:
        x: States of the graph's n nodes, [n, c].
        table: Embeddings of t hops, [t, h]; None = gather `x` alone.
        node: The row of `x` for each of the m node copies, [m].
        rows: The row of `table` for each of the m node copies, [m].
        add: Whether to add the rows, `x[node] + table[rows]`, instead of concatenating
            them.
        dtype: Data type of the result; None = that of `x` and `table`.

    Returns:
        The states of the node copies, [m, c + h]; [m, c] if `add`.
    """
    copies = x.index_select(0, node)
    if table is not None:
        hops = table.index_select(0, rows)
        copies = copies + hops if add else torch.cat([copies, hops], dim=1)
    return copies.to(dtype or copies.dtype)


def sum_by(values: Tensor, groups: Groups, dtype: torch.dtype | None = None) -> Tensor:
    """Sum the rows of each group: a segment sum.

    Args:
        values: The rows to sum, [m, c].
        groups: Which of the m rows belong to each of k groups.
        dtype: Data type of the sums; None = that of `values`.

    Returns:
        One sum per group, [k, c].
    """
    values = values.to(dtype or values.dtype)
    key, row = group_members(groups)
    out = values.new_zeros(len(groups), values.size(1))
    return out.index_add(0, key, values.index_select(0, row))


def weighted_sum(
    values: Tensor, index: Tensor, weight: Tensor, groups: Groups
) -> Tensor:
    """Multiply a sparse matrix in CSR form with the dense matrix `values`.

    Row g of the result, [k, c], is the sum of `weight[i] * values[index[i]]` over the
    nonzero entries i in row g of the sparse matrix.

    Args:
        values: The dense matrix, with r rows and c columns, [r, c].
        index: The column of each of the q nonzero entries in the sparse matrix, [q].
        weight: The value of each nonzero entry, [q].
        groups: The nonzero entries in each of the k rows of the sparse matrix.
    """
    share = weight.to(values.dtype)[:, None] * values.index_select(0, index)
    return sum_by(share, groups)


def table_sum(
    values: Tensor, rows: Tensor, size: int, dtype: torch.dtype | None = None
) -> Tensor:
    """Return the gradient of a table from which rows were gathered, [size, c].

    The forward pass was `table[rows]`. Row i of the result is the sum of all rows of
    `values` at which `rows` is i.

    Args:
        values: The gradient of the m gathered rows `table[rows]`, [m, c].
        rows: For each gathered row, its index in the table, [m].
        size: Number of rows of the table.
        dtype: Data type of the result; None = that of `values`.
    """
    values = values.to(dtype or values.dtype)
    return values.new_zeros(size, values.size(1)).index_add(0, rows, values)


def group_members(groups: Groups) -> tuple[Tensor, Tensor]:
    """List all pairs of a group and a row in this group, sorted by group.

    Padding rows belong to no group.

    Returns:
        The group of every pair, and the row index of every pair.
    """
    counts = groups.ptr.diff()
    key = torch.arange(len(groups), device=counts.device).repeat_interleave(counts)
    row = torch.arange(key.numel(), device=counts.device)
    return key, row if groups.order is None else groups.order[: key.numel()]


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


def hop_tables(d: Tensor, linears: HopLinears) -> list[Tensor]:
    """Apply several Linears to the embeddings of all distances to the root.

    The results are tables with one row per distance: gates, which are sigmoids of the
    Linear, and at most one table that is added to node states.

    Args:
        d: The embeddings of t distances, [t, h].
        linears: The Linears. All gates have the same width.

    Returns:
        The table of each Linear, [t, c].
    """
    weights, biases = linears
    added = len(weights) - len(biases)
    tables = [d @ weight.mT for weight in weights[:added]]
    gates = zip(weights[added:], biases, strict=True)
    return tables + [torch.sigmoid(d @ weight.mT + bias) for weight, bias in gates]


def hop_tables_backward(
    d: Tensor, linears: HopLinears, tables: Sequence[Tensor], grads: Sequence[Tensor]
) -> tuple[Tensor, HopLinears]:
    """Compute the gradients of `hop_tables`.

    Args:
        d: The embeddings of t distances, [t, h].
        linears: The Linears.
        tables: The result of `hop_tables`.
        grads: The gradient of each table, [t, c].

    Returns:
        The gradients of `d`, and of the weights and biases of the Linears.
    """
    weights, biases = linears
    added = len(weights) - len(biases)
    gates = zip(grads[added:], tables[added:], strict=True)
    backs = [*grads[:added], *(grad * value * (1 - value) for grad, value in gates)]
    terms = [back @ weight for back, weight in zip(backs, weights, strict=True)]
    of_weights = [back.mT @ d for back in backs]
    of_biases = [back.sum(dim=0) for back in backs[added:]]
    return torch.stack(terms).sum(dim=0), HopLinears(of_weights, of_biases)

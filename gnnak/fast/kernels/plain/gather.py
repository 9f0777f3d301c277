"""Gathers, segment sums, gated sums and hop tables: the PyTorch reference."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gnnak.fast.kernels.records import CentroidRows, GatedPool, HopLinears
from gnnak.subgraphs.groups import Groups


def lift(
    x: Tensor,
    table: Tensor | None,
    node: Tensor,
    rows: Tensor,
    add: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Append hop embeddings `table[rows]`, [m, h], to node states `x[node]`, [m, c].

    If `add`, add the embeddings instead. If `table` is None, return `x[node]`.
    """
    copies = x.index_select(0, node)
    if table is not None:
        hops = table.index_select(0, rows)
        copies = copies + hops if add else torch.cat([copies, hops], dim=1)
    return copies.to(dtype or copies.dtype)


def add_lifted(into: Tensor, x: Tensor, node: Tensor) -> None:
    """Add node states `x[node]`, with `x` of shape [n, c], to `into`, [m, c]."""
    into.add_(x.index_select(0, node))


def sum_by(
    values: Tensor,
    groups: Groups,
    dtype: torch.dtype | None = None,
    entries: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Sum the rows of each group, [groups, c].

    If `entries` is (index, weight), sum the rows `weight[i] * values[index[i]]`.
    """
    if entries is not None:
        index, weight = entries
        values = weight.to(values.dtype)[:, None] * values.index_select(0, index)
    values = values.to(dtype or values.dtype)
    key, row = group_members(groups)
    out = values.new_zeros(len(groups), values.size(1))
    return out.index_add(0, key, values.index_select(0, row))


def table_sum(
    values: Tensor, rows: Tensor, size: int, dtype: torch.dtype | None = None
) -> Tensor:
    """Return the gradient of a table, [size, c], from that of `table[rows]`, [m, c]."""
    values = values.to(dtype or values.dtype)
    return values.new_zeros(size, values.size(1)).index_add(0, rows, values)


def group_members(groups: Groups) -> tuple[Tensor, Tensor]:
    """List all rows, group by group; return the group and the index of each row."""
    counts = groups.ptr.diff()
    key = torch.arange(len(groups), device=counts.device).repeat_interleave(counts)
    row = torch.arange(key.numel(), device=counts.device)
    return key, row if groups.order is None else groups.order[: key.numel()]


def gated_sums(
    values: Tensor,
    tables: Sequence[Tensor | None],
    pools: Sequence[GatedPool],
    rows: Tensor | None,
) -> list[Tensor]:
    """For each pool, sum `gates_of_copies * values` over each group, [groups, c]."""
    gated = [
        values if table is None else gates_of_copies(table, rows) * values
        for table in tables
    ]
    return [sum_by(each, pool.groups) for each, pool in zip(gated, pools, strict=True)]


def gates_of_copies(gate: Tensor, rows: Tensor | None) -> Tensor:
    """Return the gates of node copies, [m, c]: rows of the table `gate`, [t, c].

    If `rows` is None, `gate` has the logits of the gates, [m, c].
    """
    return torch.sigmoid(gate) if rows is None else gate.index_select(0, rows)


def gate_grad(share: Tensor, grad: Tensor, gate: Tensor, rows: Tensor | None) -> Tensor:
    """Return the gradient of `gate` from that of `share = gates_of_copies`, [m, c]."""
    if rows is None:
        return grad * share * (1 - share)
    return table_sum(grad, rows, gate.size(0))


def gated_sums_backward(
    values: Tensor,
    grads: Sequence[Tensor],
    tables: Sequence[Tensor | None],
    pools: Sequence[GatedPool],
    rows: Tensor | None,
    centroids: CentroidRows | None,
) -> tuple[Tensor, list[Tensor | None]]:
    """Return the gradients of `values`, plus `centroids` if given, and of `tables`.

    If `rows` is None, Triton overwrites `tables`, the logits, with their gradients.
    """
    total = torch.zeros_like(values)
    of_tables: list[Tensor | None] = []
    for grad, table, pool in zip(grads, tables, pools, strict=True):
        back, of_table = grad.index_select(0, pool.key), None
        if table is not None:
            share = gates_of_copies(table, rows)
            of_table = gate_grad(share, back * values, table, rows).to(table.dtype)
            back = share * back
        of_tables.append(of_table)
        total += back
    if centroids is not None:
        total = total.index_add(0, centroids.centroid, centroids.values)
    return total, of_tables


def hop_tables(d: Tensor, linears: HopLinears) -> list[Tensor]:
    """Apply each Linear to the embeddings `d`, [t, h], and a sigmoid to each gate."""
    weights, biases = linears
    added = len(weights) - len(biases)
    tables = [d @ weight.mT for weight in weights[:added]]
    gates = zip(weights[added:], biases, strict=True)
    return tables + [torch.sigmoid(d @ weight.mT + bias) for weight, bias in gates]


def hop_tables_backward(
    d: Tensor, linears: HopLinears, tables: Sequence[Tensor], grads: Sequence[Tensor]
) -> tuple[Tensor, HopLinears]:
    """Return the gradient of `d`, [t, h], and the gradients of all Linears."""
    _, vjp, *_ = torch.func.vjp(hop_tables, d, linears)
    return vjp(list(grads))

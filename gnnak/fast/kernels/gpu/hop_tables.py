"""Hop tables, and their gradients, in Triton: one kernel for all tables of a layer."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.tiles import (
    cdiv,
    columns,
    for_all_sizes,
    next_power_of_2,
    widened,
)
from gnnak.fast.kernels.records import MOST_HOP_LINEARS, HopLinears


def hop_tables(d: Tensor, linears: HopLinears) -> list[Tensor]:
    weights, biases = linears
    size, first, last = d.size(0), weights[0].size(0), weights[-1].size(0)
    outs = [d.new_empty(size, weight.size(0)) for weight in weights]
    _tables[_grid(first, last, len(weights))](
        d, *_filled(weights), *_filled(biases or weights), *_filled(outs), size,
        d.size(1), first, last, len(weights) - len(biases), *_tile(d),
        columns(max(first, last)), num_warps=1,
    )  # fmt: skip
    return outs


def hop_tables_backward(
    d: Tensor, linears: HopLinears, tables: Sequence[Tensor], grads: Sequence[Tensor]
) -> tuple[Tensor, HopLinears]:
    weights, biases = linears
    grad_d = torch.empty_like(d)
    of_weights = [torch.empty_like(weight) for weight in weights]
    of_biases = [torch.empty_like(bias) for bias in biases]
    first, last = weights[0].size(0), weights[-1].size(0)
    _backward[_grid(first, last, len(weights) + 1)](
        d, *_filled(weights), *_filled(tables), *_filled(grads), *_filled(of_weights),
        *_filled(of_biases or of_weights), grad_d, d.size(0), d.size(1), first, last,
        len(weights) - len(biases), len(weights), *_tile(d), columns(max(first, last)),
        num_warps=4,
    )  # fmt: skip
    return grad_d, HopLinears(of_weights, of_biases)


def _filled(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Repeat the last tensor, so that there are `MOST_HOP_LINEARS` kernel arguments."""
    missing = MOST_HOP_LINEARS - len(tensors)
    return [*tensors, *(tensors[-1] for _ in range(missing))]


def _grid(first: int, last: int, tables: int) -> tuple[int, int]:
    return cdiv(max(first, last), columns(max(first, last))), tables


def _tile(d: Tensor) -> tuple[int, int]:
    return max(16, next_power_of_2(d.size(0))), max(16, next_power_of_2(d.size(1)))


@triton.jit
def choose(which, a, a_2, a_3, a_4):
    """Return one of four pointers: `a` if `which` is 0, `a_2` if it is 1, and so on."""
    if which == 1:
        a = a_2
    if which == 2:
        a = a_3
    if which == 3:
        a = a_4
    return a


@triton.jit
def load_grad(table, grad, place, shown, gated):
    """Load a tile of a table's gradient, times the sigmoid's derivative if `gated`."""
    back = widened(tl.load(grad + place, mask=shown, other=0.0))
    value = widened(tl.load(table + place, mask=shown & gated, other=0.0))
    return tl.where(gated, back * value * (1 - value), back)


@for_all_sizes
def _tables(
    d, weight, weight_2, weight_3, weight_4, bias, bias_2, bias_3, bias_4, out, out_2,
    out_3, out_4, size, inner, first, last,
    ADDED: tl.constexpr, ROWS: tl.constexpr, INNER: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Compute some columns of one table.

    The first table has `first` columns, all others have `last` columns. `ADDED` is 1 if
    the first Linear has no bias and no sigmoid, and 0 otherwise.
    """
    which = tl.program_id(1)
    gated = which >= ADDED
    width = tl.where(gated, last, first)
    weight = choose(which, weight, weight_2, weight_3, weight_4)
    bias = choose(which - ADDED, bias, bias_2, bias_3, bias_4)
    out = choose(which, out, out_2, out_3, out_4)
    column = tl.program_id(0) * C + tl.arange(0, C)
    row, h = tl.arange(0, ROWS), tl.arange(0, INNER)
    inside = column < width
    place = row[:, None] * inner + h[None, :]
    shown = (row < size)[:, None] & (h < inner)[None, :]
    embedding = widened(tl.load(d + place, mask=shown, other=0.0))
    place = column[None, :] * inner + h[:, None]
    shown = inside[None, :] & (h < inner)[:, None]
    factor = widened(tl.load(weight + place, mask=shown, other=0.0))
    value = tl.dot(embedding, factor, input_precision="ieee")
    offset = widened(tl.load(bias + column, mask=inside & gated, other=0.0))
    value += offset[None, :]
    value = tl.where(gated, 1 / (1 + tl.exp(-value)), value)
    place = row[:, None] * width + column[None, :]
    tl.store(out + place, value, mask=(row < size)[:, None] & inside[None, :])


@for_all_sizes
def _backward(
    d, weight, weight_2, weight_3, weight_4, table, table_2, table_3, table_4, grad,
    grad_2, grad_3, grad_4, of_weight, of_weight_2, of_weight_3, of_weight_4, of_bias,
    of_bias_2, of_bias_3, of_bias_4, of_d, size, inner, first, last,
    ADDED: tl.constexpr, TABLES: tl.constexpr, ROWS: tl.constexpr, INNER: tl.constexpr,
    C: tl.constexpr,
):  # fmt: skip
    """Compute gradients of one Linear or, if `program_id(1)` is `TABLES`, of `d`."""
    which = tl.program_id(1)
    row, h = tl.arange(0, ROWS), tl.arange(0, INNER)
    of_rows = row[:, None] * inner + h[None, :]
    there = (row < size)[:, None] & (h < inner)[None, :]
    if which < TABLES:
        gated = which >= ADDED
        width = tl.where(gated, last, first)
        column = tl.program_id(0) * C + tl.arange(0, C)
        inside = column < width
        place = row[:, None] * width + column[None, :]
        back = load_grad(
            choose(which, table, table_2, table_3, table_4),
            choose(which, grad, grad_2, grad_3, grad_4),
            place,
            (row < size)[:, None] & inside[None, :],
            gated,
        )
        embedding = widened(tl.load(d + of_rows, mask=there, other=0.0))
        total = tl.dot(tl.trans(back), embedding, input_precision="ieee")
        out = choose(which, of_weight, of_weight_2, of_weight_3, of_weight_4)
        place = column[:, None] * inner + h[None, :]
        tl.store(out + place, total, mask=inside[:, None] & (h < inner)[None, :])
        out = choose(which - ADDED, of_bias, of_bias_2, of_bias_3, of_bias_4)
        tl.store(out + column, tl.sum(back, axis=0), mask=inside & gated)
    elif tl.program_id(0) == 0:
        total = widened(tl.zeros([ROWS, INNER], dtype=of_d.dtype.element_ty))
        each = 0
        while each < TABLES:
            gated = each >= ADDED
            width = tl.where(gated, last, first)
            begin = 0
            while begin < width:
                column = begin + tl.arange(0, C)
                inside = column < width
                place = row[:, None] * width + column[None, :]
                back = load_grad(
                    choose(each, table, table_2, table_3, table_4),
                    choose(each, grad, grad_2, grad_3, grad_4),
                    place,
                    (row < size)[:, None] & inside[None, :],
                    gated,
                )
                place = column[:, None] * inner + h[None, :]
                shown = inside[:, None] & (h < inner)[None, :]
                factor = choose(each, weight, weight_2, weight_3, weight_4)
                factor = widened(tl.load(factor + place, mask=shown, other=0.0))
                total += tl.dot(back, factor, input_precision="ieee")
                begin += C
            each += 1
        tl.store(of_d + of_rows, total, mask=there)

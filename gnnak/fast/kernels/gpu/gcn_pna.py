"""GCN's neighbour sum, and PNA*'s messages and four aggregations, in Triton.

GCN's self loops are added as a term of the sum, not as edges. PNA* is PNA (principal
neighbourhood aggregation) with a degree embedding in place of degree scalers.
"""

import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.norm import add_rows
from gnnak.fast.kernels.gpu.tiles import (
    GROUPS,
    SUMMED,
    cdiv,
    columns,
    for_all_sizes,
    parts,
    sum_dtype,
    tiles,
    widened,
)
from gnnak.fast.kernels.plain.messages import LEAST
from gnnak.fast.kernels.records import Edges, Moments
from gnnak.subgraphs.groups import Groups

COPIES = 128
"""Number of node copies whose degrees one program of `_gcn_scale` counts."""
PARTS = 2048
"""Approximate upper limit of the number of programs that share the rows of a sum."""


def gcn_scale(like: Tensor, edges: Edges) -> Tensor:
    """Return 1 / sqrt(degree) of each node copy, [m]; degrees include one self loop."""
    copies = len(edges.by_target)
    out = like.new_empty(copies, dtype=sum_dtype(like))
    _gcn_scale[(max(cdiv(copies, COPIES), 1),)](
        edges.by_target.ptr, edges.source, out, copies, COPIES
    )
    return out


def gcn_sum(
    h: Tensor, scale: Tensor, bias: Tensor | None, end: Tensor, groups: Groups
) -> Tensor:
    """Compute GCN's sums over neighbours, [m, w], as `plain.gcn_sum` does."""
    width, out = h.size(1), h.new_empty(h.shape)
    _gcn_sum[tiles(h.size(0), GROUPS, width)](
        h, scale,
        h if bias is None else bias,
        groups.ptr,
        groups.ptr if groups.order is None else groups.order,
        end, out, h.size(0), width,
        bias is not None,
        groups.order is not None,
        GROUPS, columns(width),
    )  # fmt: skip
    return out


@for_all_sizes
def _gcn_scale(ptr, source, out, m, COPIES: tl.constexpr):
    """Count the neighbours of `COPIES` node copies and write 1 / sqrt(1 + count)."""
    row = tl.program_id(0) * COPIES + tl.arange(0, COPIES)
    there = row < m
    begin = tl.load(ptr + row, mask=there, other=0)
    count = tl.load(ptr + row + 1, mask=there, other=0) - begin
    longest = tl.max(count, axis=0)
    degree = tl.full([COPIES], 1, dtype=tl.int32)
    k = 0
    while k < longest:
        live = k < count
        j = tl.load(source + begin + k, mask=live, other=0)
        degree += (live & (j != row)).to(tl.int32)
        k += 1
    degrees = widened(tl.zeros([COPIES], dtype=out.dtype.element_ty)) + degree
    tl.store(out + row, 1 / tl.sqrt(degrees), mask=there)


@for_all_sizes
def _gcn_sum(
    h, scale, bias, ptr, order, end, out, m, width,
    BIASED: tl.constexpr, ORDERED: tl.constexpr, GROUPS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    there, inside = row < m, column < width
    begin = tl.load(ptr + row, mask=there, other=0)
    count = tl.load(ptr + row + 1, mask=there, other=0) - begin
    longest = tl.max(count, axis=0)
    place = row.to(tl.int64)[:, None] * width + column
    shown = there[:, None] & inside
    own = widened(tl.load(scale + row, mask=there, other=0.0))[:, None]
    total = own * widened(tl.load(h + place, mask=shown, other=0.0))
    # Iteration k adds the k-th neighbour of every node copy that has one.
    k = 0
    while k < longest:
        live = k < count
        at = begin + k
        if ORDERED:
            at = tl.load(order + at, mask=live, other=0)
        j = tl.load(end + at, mask=live, other=0).to(tl.int64)
        live = live & (j != row)
        factor = widened(tl.load(scale + j, mask=live, other=0.0))[:, None]
        seen = live[:, None] & inside
        sent = widened(tl.load(h + j[:, None] * width + column, mask=seen, other=0.0))
        total += factor * sent
        k += 1
    total *= own
    if BIASED:
        total += widened(tl.load(bias + column, mask=inside, other=0.0))
    tl.store(out + place, total, mask=shown)


def pair_sum(
    at_target: Tensor,
    at_source: Tensor,
    at_edge: Tensor | None,
    edges: Edges,
    real: Tensor | None = None,
) -> tuple[Tensor, Moments]:
    """Compute the messages of `plain.pair_sum`, [f, c], and their column statistics."""
    rows, width = edges.edge.numel(), at_target.size(1)
    out, (count, steps) = at_target.new_empty(rows, width), parts(rows, SUMMED, PARTS)
    partial = out.new_empty(2, count, width, dtype=sum_dtype(out))
    _pair_sum[(count, cdiv(width, columns(width)))](
        at_target.contiguous(), at_source.contiguous(),
        at_target if at_edge is None else at_edge.contiguous(),
        edges.target, edges.source, edges.edge,
        edges.edge if real is None else real,
        out, partial, rows, width, count, steps,
        at_edge is not None,
        real is not None,
        SUMMED, columns(width),
    )  # fmt: skip
    return out, Moments(partial, steps * SUMMED)


def pna_pool(message: Tensor, groups: Groups) -> Tensor:
    """Return `[mean || min || max || std]` of the rows of each group, [groups, 4c]."""
    width = message.size(1)
    out = message.new_empty(len(groups), 4 * width)
    _pna_pool[tiles(len(groups), GROUPS, width)](
        message, groups.ptr, out, len(groups), width, LEAST, GROUPS, columns(width)
    )
    return out


def pna_pool_backward(
    grad: Tensor, message: Tensor, pooled: Tensor, groups: Groups
) -> Tensor:
    """Compute the gradient of `pna_pool` with respect to `message`, [f, c]."""
    width = message.size(1)
    out = message.new_zeros(message.shape)  # Zero for padding rows.
    _pna_to_rows[tiles(len(groups), GROUPS, width)](
        grad, grad.stride(0), message, pooled, groups.ptr, out, len(groups), width,
        GROUPS, columns(width),
    )  # fmt: skip
    return out


@for_all_sizes
def _pair_sum(
    at_target, at_source, at_edge, target, source, edge, real, out, partial, rows,
    width, count, steps,
    EDGES: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    last = tl.load(real).to(tl.int32) if PADDED else rows
    mean = tl.zeros([C], dtype=partial.dtype.element_ty)
    m2 = tl.zeros([C], dtype=partial.dtype.element_ty)
    seen = 0
    step = 0
    while step < steps:
        first = (part * steps + step) * BLOCK
        row = first + tl.arange(0, BLOCK)
        there = row < rows
        shown, at = there[:, None] & inside[None, :], column[None, :]
        i = tl.load(target + row, mask=there, other=0).to(tl.int64)[:, None]
        j = tl.load(source + row, mask=there, other=0).to(tl.int64)[:, None]
        value = widened(tl.load(at_target + i * width + at, mask=shown, other=0.0))
        value += tl.load(at_source + j * width + at, mask=shown, other=0.0)
        if EDGES:
            r = tl.load(edge + row, mask=there, other=0).to(tl.int64)[:, None]
            value += tl.load(at_edge + r * width + at, mask=shown, other=0.0)
        tl.store(out + row.to(tl.int64)[:, None] * width + at, value, mask=shown)
        new = tl.maximum(tl.minimum(last - first, BLOCK), 0)
        shown = (row < last)[:, None] & inside[None, :]
        mean, m2 = add_rows(mean, m2, seen, value, shown, new)
        seen += new
        step += 1
    tl.store(partial + part * width + column, mean, mask=inside)
    tl.store(partial + (count + part) * width + column, m2, mask=inside)


@for_all_sizes
def _pna_pool(
    message, ptr, out, size, width,
    LEAST: tl.constexpr, GROUPS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    there, inside = group < size, column < width
    begin = tl.load(ptr + group, mask=there, other=0).to(tl.int64)
    count = tl.load(ptr + group + 1, mask=there, other=0) - begin
    longest = tl.max(count, axis=0)
    some = (count > 0)[:, None]
    zero = widened(tl.zeros([GROUPS, C], dtype=out.dtype.element_ty))
    many = tl.maximum(count, 1).to(zero.dtype)[:, None]
    total, low, high = zero, zero + float("inf"), zero - float("inf")
    # Iteration k of a loop handles the k-th row of every group.
    k = 0
    while k < longest:
        seen = (k < count)[:, None] & inside
        place = (begin + k)[:, None] * width + column
        value = widened(tl.load(message + place, mask=seen, other=0.0))
        total += value
        low = tl.minimum(low, tl.where(seen, value, float("inf")))
        high = tl.maximum(high, tl.where(seen, value, float("-inf")))
        k += 1
    mean = total / many
    # Summing squared deviations is more precise than E[x^2] - E[x]^2.
    m2 = zero
    k = 0
    while k < longest:
        seen = (k < count)[:, None] & inside
        place = (begin + k)[:, None] * width + column
        off = widened(tl.load(message + place, mask=seen, other=0.0)) - mean
        m2 += tl.where(seen, off * off, 0.0)
        k += 1
    place = group.to(tl.int64)[:, None] * (4 * width) + column
    shown = there[:, None] & inside
    tl.store(out + place, mean, mask=shown)
    tl.store(out + place + width, tl.where(some, low, 0.0), mask=shown)
    tl.store(out + place + 2 * width, tl.where(some, high, 0.0), mask=shown)
    tl.store(out + place + 3 * width, tl.sqrt(m2 / many + LEAST), mask=shown)


@for_all_sizes
def _pna_to_rows(
    grad, stride, message, pooled, ptr, out, size, width,
    GROUPS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    there, inside = group < size, column < width
    begin = tl.load(ptr + group, mask=there, other=0).to(tl.int64)
    count = tl.load(ptr + group + 1, mask=there, other=0) - begin
    longest = tl.max(count, axis=0)
    zero = widened(tl.zeros([GROUPS, C], dtype=out.dtype.element_ty))
    many = tl.maximum(count, 1).to(zero.dtype)[:, None]
    shown = there[:, None] & inside
    own = pooled + group.to(tl.int64)[:, None] * (4 * width) + column
    mean = widened(tl.load(own, mask=shown, other=0.0))
    low = widened(tl.load(own + width, mask=shown, other=0.0))
    high = widened(tl.load(own + 2 * width, mask=shown, other=0.0))
    deviation = widened(tl.load(own + 3 * width, mask=shown, other=1.0))
    back = grad + group.to(tl.int64)[:, None] * stride + column
    of_mean = widened(tl.load(back, mask=shown, other=0.0)) / many
    of_low = widened(tl.load(back + width, mask=shown, other=0.0))
    of_high = widened(tl.load(back + 2 * width, mask=shown, other=0.0))
    slope = widened(tl.load(back + 3 * width, mask=shown, other=0.0))
    slope /= many * deviation
    lows, highs = zero, zero
    k = 0
    while k < longest:
        seen = (k < count)[:, None] & inside
        place = (begin + k)[:, None] * width + column
        value = widened(tl.load(message + place, mask=seen, other=0.0))
        lows += tl.where(seen & (value == low), 1.0, 0.0)
        highs += tl.where(seen & (value == high), 1.0, 0.0)
        k += 1
    of_low /= tl.maximum(lows, 1.0)
    of_high /= tl.maximum(highs, 1.0)
    k = 0
    while k < longest:
        seen = (k < count)[:, None] & inside
        place = (begin + k)[:, None] * width + column
        value = widened(tl.load(message + place, mask=seen, other=0.0))
        share = of_mean + slope * (value - mean)
        share += tl.where(value == low, of_low, 0.0)
        share += tl.where(value == high, of_high, 0.0)
        tl.store(out + place, share, mask=seen)
        k += 1

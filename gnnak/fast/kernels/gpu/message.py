"""Messages of GINE, GCN and PNA* (PNA with a degree embedding), in Triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.norm import add_rows
from gnnak.fast.kernels.gpu.tiles import (
    EACH,
    GROUPS,
    SUMMED,
    cdiv,
    columns,
    for_all_sizes,
    parts,
    sum_dtype,
    tiles,
    wide_columns,
    widened,
)
from gnnak.fast.kernels.plain.messages import LEAST
from gnnak.fast.kernels.records import Edges, Lifted, Moments
from gnnak.subgraphs.groups import Groups

MANY = 16
"""Rows per program in the backward pass if all edges share one state."""


def messages(c: Tensor | Lifted, e: Tensor, eps: Tensor, edges: Edges) -> Tensor:
    c, *lifting, is_lifted, out = read_states(c)
    rows, width = out.shape
    count, each = parts(rows, 1, cdiv(rows, EACH))
    _messages[(count, cdiv(width, wide_columns(width)))](
        c, *lifting, e.contiguous(), eps, edges.by_target.ptr, edges.source, edges.edge,
        out, rows, width, each, is_lifted,
        edges.by_edge is None,
        wide_columns(width), num_warps=1,
    )  # fmt: skip
    return out


def read_states(
    c: Tensor | Lifted,
) -> tuple[Tensor, Tensor, Tensor, Tensor, bool, Tensor]:
    """Return kernel arguments c, table, node, rows, LIFTED, and a new output tensor."""
    if not isinstance(c, Lifted):
        return c, c, c, c, False, torch.empty_like(c)
    out = c.x.new_empty(c.node.size(0), c.x.size(1))
    return *c, True, out


@triton.jit
def find_state(node, rows, j, live, LIFTED: tl.constexpr):
    """Return the row of `c` and the row of `table` that give node copy `j`'s state."""
    at, hop = j.to(tl.int64), j.to(tl.int64)
    if LIFTED:
        at = tl.load(node + j, mask=live, other=0).to(tl.int64)
        hop = tl.load(rows + j, mask=live, other=0).to(tl.int64)
    return at, hop


@triton.jit
def load_state(c, table, at, hop, column, inside, width, LIFTED: tl.constexpr):
    """Load columns of a node copy's state: `c[at]`, plus `table[hop]` if `LIFTED`."""
    value = widened(tl.load(c + at * width + column, mask=inside, other=0.0))
    if LIFTED:
        value += widened(tl.load(table + hop * width + column, inside, 0.0))
    return value


@triton.jit
def find_edge(edge, at, live, SAME: tl.constexpr):
    """Return the edge of edge copy `at`, or 0 if all edges have the `SAME` state."""
    if SAME:
        return at * 0
    return tl.load(edge + at, mask=live, other=0)


@triton.jit
def load_edge(e, same, of, column, inside, width, SAME: tl.constexpr):
    """Load columns of the state of edge `of`; if `SAME`, return `same` instead."""
    if SAME:
        return same
    return widened(tl.load(e + of.to(tl.int64) * width + column, inside, 0.0))


@for_all_sizes
def _messages(
    c, table, node, rows, e, eps, ptr, source, edge, out, m, width, each,
    LIFTED: tl.constexpr, SAME: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    same = widened(tl.load(e + column, mask=inside & SAME, other=0.0))
    row = tl.program_id(0) * each
    last = tl.minimum(row + each, m)
    while row < last:
        at, end = tl.load(ptr + row), tl.load(ptr + row + 1)
        j = tl.load(source + at, mask=at < end, other=0)
        of = find_edge(edge, at, at < end, SAME)
        from_j, hop_j = find_state(node, rows, j, at < end, LIFTED)
        j = tl.load(source + at + 1, mask=at + 1 < end, other=0)
        place = row.to(tl.int64) * width + column
        own_node, own_hop = find_state(node, rows, row, row < last, LIFTED)
        own = load_state(c, table, own_node, own_hop, column, inside, width, LIFTED)
        total = (1 + widened(tl.load(eps))) * own
        while at < end:
            sent = load_state(c, table, from_j, hop_j, column, inside, width, LIFTED)
            state = load_edge(e, same, of, column, inside, width, SAME)
            at += 1
            from_j, hop_j = find_state(node, rows, j, at < end, LIFTED)
            of = find_edge(edge, at, at < end, SAME)
            j = tl.load(source + at + 1, mask=at + 1 < end, other=0)
            total += tl.maximum(sent + state, 0.0)
        tl.store(out + place, total, mask=inside)
        row += 1


@triton.jit
def to_copies(
    grad, c, table, node, rows, e, eps, more, ptr, order, target, edge, grad_c,
    grad_eps, grad_e, m, width, each,
    MORE: tl.constexpr, LIFTED: tl.constexpr, SAME: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Compute some rows of `grad_c`, and partial sums of `grad_eps` and `grad_e`."""
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    same = widened(tl.load(e + column, mask=inside & SAME, other=0.0))
    of_eps = widened(tl.zeros([C], dtype=grad_c.dtype.element_ty))
    of_same = tl.zeros_like(of_eps)
    row = part * each
    last = tl.minimum(row + each, m)
    while row < last:
        k, end = tl.load(ptr + row), tl.load(ptr + row + 1)
        at = tl.load(order + k, mask=k < end, other=0)
        i = tl.load(target + at, mask=k < end, other=0)
        of = find_edge(edge, at, k < end, SAME)
        at = tl.load(order + k + 1, mask=k + 1 < end, other=0)
        place = row.to(tl.int64) * width + column
        own_node, own_hop = find_state(node, rows, row, row < last, LIFTED)
        own = load_state(c, table, own_node, own_hop, column, inside, width, LIFTED)
        back = widened(tl.load(grad + place, mask=inside, other=0.0))
        of_eps += own * back
        direct = (1 + widened(tl.load(eps))) * back
        if MORE:
            direct += tl.load(more + place, mask=inside, other=0.0)
        total = tl.zeros_like(direct)
        while k < end:
            place_i = i.to(tl.int64) * width + column
            back = widened(tl.load(grad + place_i, mask=inside, other=0.0))
            if not SAME:
                state = load_edge(e, same, of, column, inside, width, SAME)
            k += 1
            i = tl.load(target + at, mask=k < end, other=0)
            of = find_edge(edge, at, k < end, SAME)
            at = tl.load(order + k + 1, mask=k + 1 < end, other=0)
            if not SAME:
                back = tl.where(own + state > 0, back, 0.0)
            total += back
        if SAME:  # Then the same columns of all messages of this row pass the ReLU.
            total = tl.where(own + same > 0, total, 0.0)
            of_same += total
        tl.store(grad_c + place, direct + total, mask=inside)
        row += 1
    number = part * tl.num_programs(1) + tl.program_id(1)
    tl.store(grad_eps + number, tl.sum(of_eps, axis=0))
    if SAME:
        tl.store(grad_e + part.to(tl.int64) * width + column, of_same, mask=inside)


@triton.jit
def to_edge(
    grad, c, table, node, rows, e, ptr, order, source, target, grad_e, size, width,
    LIFTED: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of one edge's state: a sum over its edge copies."""
    row = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = (column < width) & (row < size)
    k = tl.load(ptr + row, mask=row < size, other=0)
    end = tl.load(ptr + row + 1, mask=row < size, other=0)
    at = tl.load(order + k, mask=k < end, other=0)
    i = tl.load(target + at, mask=k < end, other=0)
    j = tl.load(source + at, mask=k < end, other=0)
    at = tl.load(order + k + 1, mask=k + 1 < end, other=0)
    place = row.to(tl.int64) * width + column
    own = widened(tl.load(e + place, mask=inside, other=0.0))
    total = tl.zeros_like(own)
    if LIFTED:
        # An edge starts at the same node in all subgraphs.
        start = tl.load(node + j, mask=k < end, other=0).to(tl.int64)
        base = widened(tl.load(c + start * width + column, inside, 0.0))
    while k < end:
        if LIFTED:
            hop = tl.load(rows + j).to(tl.int64)
            sent = base + widened(tl.load(table + hop * width + column, inside, 0.0))
        else:
            sent = widened(tl.load(c + j.to(tl.int64) * width + column, inside, 0.0))
        back = widened(tl.load(grad + i.to(tl.int64) * width + column, inside, 0.0))
        k += 1
        i = tl.load(target + at, mask=k < end, other=0)
        j = tl.load(source + at, mask=k < end, other=0)
        at = tl.load(order + k + 1, mask=k + 1 < end, other=0)
        total += tl.where(own + sent > 0, back, 0.0)
    tl.store(grad_e + place, total, mask=inside)


def messages_backward(
    grad: Tensor,
    c: Tensor | Lifted,
    e: Tensor,
    eps: Tensor,
    edges: Edges,
    more: Tensor | None,
    with_eps: bool = True,
) -> tuple[Tensor, Tensor, Tensor | None]:
    c, *lifting, is_lifted, grad_c = read_states(c)
    rows, width = grad_c.shape
    same = edges.by_edge is None
    count, each = parts(rows, 1, cdiv(rows, MANY if same else EACH))
    tiles = cdiv(width, wide_columns(width))
    grad_eps = c.new_empty(count, tiles, dtype=sum_dtype(grad_c))
    states, size = e.contiguous(), 0 if same else e.size(0)
    grad_e = grad_eps.new_empty(count, width) if same else torch.empty_like(states)
    by_edge = edges.by_source if edges.by_edge is None else edges.by_edge
    _backward[(max(count, size), tiles, 1 if same else 2)](
        grad, c, *lifting, states, eps,
        c if more is None else more,
        edges.by_source.ptr, edges.by_source.order, by_edge.ptr, by_edge.order,
        edges.source, edges.target, edges.edge, grad_c, grad_eps, grad_e, rows, size,
        count, width, each,
        more is not None,
        is_lifted, same, wide_columns(width), num_warps=1,
    )  # fmt: skip
    if same:
        grad_e = grad_e.sum(dim=0, keepdim=True).to(e.dtype)
    of_eps = grad_eps.sum().view(eps.shape).to(eps.dtype) if with_eps else None
    return grad_c, grad_e, of_eps


@for_all_sizes
def _backward(
    grad, c, table, node, rows, e, eps, more, ptr, order, ptr_2, order_2, source,
    target, edge, grad_c, grad_eps, grad_e, m, size, count, width, each,
    MORE: tl.constexpr, LIFTED: tl.constexpr, SAME: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of `c`, or of `e` if `program_id(2)` is 1."""
    if SAME or tl.program_id(2) == 0:
        if tl.program_id(0) < count:
            to_copies(
                grad, c, table, node, rows, e, eps, more, ptr, order, target, edge,
                grad_c, grad_eps, grad_e, m, width, each, MORE, LIFTED, SAME, C,
            )  # fmt: skip
    else:
        to_edge(
            grad, c, table, node, rows, e, ptr_2, order_2, source, target, grad_e, size,
            width, LIFTED, C,
        )  # fmt: skip


COPIES = 128
"""Number of node copies whose degrees one program of `_gcn_scale` counts."""
PARTS = 2048
"""Approximate upper limit of the number of programs among which rows are divided."""


def gcn_scale(like: Tensor, edges: Edges) -> Tensor:
    copies = len(edges.by_target)
    out = like.new_empty(copies, dtype=sum_dtype(like))
    _gcn_scale[(max(cdiv(copies, COPIES), 1),)](
        edges.by_target.ptr, edges.source, out, copies, COPIES
    )
    return out


def gcn_sum(
    h: Tensor, scale: Tensor, bias: Tensor | None, end: Tensor, groups: Groups
) -> Tensor:
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
    """Add states of target, source and edge for each edge copy; return moments, too."""
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
    width = message.size(1)
    out = message.new_empty(len(groups), 4 * width)
    _pna_pool[tiles(len(groups), GROUPS, width)](
        message, groups.ptr, out, len(groups), width, LEAST, GROUPS, columns(width)
    )
    return out


def pna_pool_backward(
    grad: Tensor, message: Tensor, pooled: Tensor, groups: Groups
) -> Tensor:
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

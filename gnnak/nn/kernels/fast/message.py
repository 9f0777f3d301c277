"""GINE's messages, summed where they are made: no row for every edge copy."""

import triton
import triton.language as tl
from torch import Tensor

from gnnak.nn.kernels.fast.sums import add_up
from gnnak.nn.kernels.fast.tiles import GROUPS, columns, parts, tiles
from gnnak.nn.kernels.records import Edges, EdgeStates

ROWS, TABLE, LINE = (tl.constexpr(number) for number in range(3))
"""What states of edges are; see `EdgeStates`."""
KINDS = {"rows": 0, "table": 1, "line": 2}
PARTS = 1024
"""Programs, at most about, that sum up gradients of a table or a line."""


def messages(c: Tensor, e: EdgeStates, eps: Tensor, edges: Edges) -> Tensor:
    """(1 + eps) c_i + sum over edges j -> i of ReLU(c_j + e_ji), [m, w]."""
    width, out = c.size(1), c.new_empty(c.shape)
    _messages[tiles(c.size(0), GROUPS, width)](
        c,
        e.values.contiguous(),
        e.of_each,
        eps,
        edges.by_target.ptr,
        edges.source,
        edges.edge,
        out,
        c.size(0),
        width,
        KINDS[e.kind],
        GROUPS,
        columns(width),
    )
    return out


def messages_backward(
    grad: Tensor,
    c: Tensor,
    e: EdgeStates,
    eps: Tensor,
    edges: Edges,
    more: Tensor,
    into: Tensor,
) -> tuple[Tensor, Tensor]:
    """Gradients of `messages`: of the values of e, and of eps; that of c goes `into`.

    Arguments as of the plain kernel. A gradient of rows, one for every edge, is summed
    edge by edge; one of few numbers along with that of the copies.
    """
    width, values = c.size(1), e.values.contiguous()
    size = 0 if e.key is None else values.size(0)
    count, steps = parts(c.size(0), GROUPS, PARTS)
    partial = c.new_empty(count, size + 1, width)
    _to_copies[(count, triton.cdiv(width, columns(width)))](
        grad,
        c,
        values,
        e.of_each,
        eps,
        more,
        edges.by_source.ptr,
        edges.by_source.order,
        edges.target,
        edges.edge,
        into,
        partial,
        c.size(0),
        width,
        steps,
        size,
        KINDS[e.kind],
        triton.next_power_of_2(max(size, 1)),
        GROUPS,
        columns(width),
    )
    sums = add_up(partial)
    grad_eps = sums[size].sum().view(eps.shape)
    if e.key is None:
        return _grad_of_rows(grad, c, values, edges), grad_eps
    return sums[:size], grad_eps


def _grad_of_rows(grad: Tensor, c: Tensor, e: Tensor, edges: Edges) -> Tensor:
    """The gradient of states of edges, [e, w]."""
    (size, width), grad_e = e.shape, e.new_empty(e.shape)
    _to_edges[tiles(size, GROUPS, width)](
        grad,
        c,
        e,
        edges.by_edge.ptr,
        edges.by_edge.order,
        edges.source,
        edges.target,
        grad_e,
        size,
        width,
        GROUPS,
        columns(width),
    )
    return grad_e


@triton.jit
def read_key(key, r, live, KIND: tl.constexpr):
    """The edges themselves, their rows of the table, or their numbers."""
    return r if KIND == ROWS else tl.load(key + r, mask=live, other=0)


@triton.jit
def edge_states(values, key, seen, column, width, slope, offset, KIND: tl.constexpr):
    """States of edges with these keys, of a line before it is cut off."""
    if KIND == LINE:
        return key[:, None] * slope + offset
    place = key.to(tl.int64)[:, None] * width + column
    return tl.load(values + place, mask=seen, other=0.0)


@triton.jit
def read_line(values, column, inside, width, KIND: tl.constexpr):
    """Slope and offset of a line; anything for what is none."""
    asked = inside & (KIND == LINE)
    slope = tl.load(values + column, mask=asked, other=0.0)
    return slope, tl.load(values + width + column, mask=asked, other=0.0)


@triton.jit
def _messages(
    c,
    values,
    key,
    eps,
    ptr,
    source,
    edge,
    out,
    m,
    width,
    KIND: tl.constexpr,
    GROUPS: tl.constexpr,
    C: tl.constexpr,
):
    row = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    there, inside = row < m, column < width
    slope, offset = read_line(values, column, inside, width, KIND)
    begin = tl.load(ptr + row, mask=there, other=0)
    count = tl.load(ptr + row + 1, mask=there, other=0) - begin
    longest = tl.max(count, axis=0)
    place = row.to(tl.int64)[:, None] * width + column
    shown = there[:, None] & inside
    total = (1 + tl.load(eps)) * tl.load(c + place, mask=shown, other=0.0)
    k = 0
    while k < longest:
        live = k < count
        at = begin + k
        j = tl.load(source + at, mask=live, other=0).to(tl.int64)
        r = read_key(key, tl.load(edge + at, mask=live, other=0), live, KIND)
        seen = live[:, None] & inside
        e = edge_states(values, r, seen, column, width, slope, offset, KIND)
        if KIND == LINE:
            e = tl.where(seen, tl.maximum(e, 0.0), 0.0)
        sent = tl.load(c + j[:, None] * width + column, mask=seen, other=0.0)
        total += tl.maximum(sent + e, 0.0)
        k += 1
    tl.store(out + place, total, mask=shown)


@triton.jit
def _to_copies(
    grad,
    c,
    values,
    key,
    eps,
    more,
    ptr,
    order,
    target,
    edge,
    grad_c,
    partial,
    m,
    width,
    steps,
    size,
    KIND: tl.constexpr,
    SIZE: tl.constexpr,
    GROUPS: tl.constexpr,
    C: tl.constexpr,
):
    """Gradients of the copies of each part, and the sums of those of few numbers."""
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    inside = column < width
    slope, offset = read_line(values, column, inside, width, KIND)
    of_eps = tl.zeros([GROUPS, C], dtype=partial.dtype.element_ty)
    of_slope = tl.zeros([GROUPS, C], dtype=partial.dtype.element_ty)
    of_offset = tl.zeros([GROUPS, C], dtype=partial.dtype.element_ty)
    of_table = tl.zeros([SIZE, GROUPS, C], dtype=partial.dtype.element_ty)
    entry = tl.arange(0, SIZE)
    step = 0
    while step < steps:
        row = (part * steps + step) * GROUPS + tl.arange(0, GROUPS)
        there = row < m
        begin = tl.load(ptr + row, mask=there, other=0)
        count = tl.load(ptr + row + 1, mask=there, other=0) - begin
        longest = tl.max(count, axis=0)
        place = row.to(tl.int64)[:, None] * width + column
        shown = there[:, None] & inside
        own = tl.load(c + place, mask=shown, other=0.0)
        back = tl.load(grad + place, mask=shown, other=0.0)
        of_eps += own * back
        total = (1 + tl.load(eps)) * back
        total += tl.load(more + place, mask=shown, other=0.0)
        k = 0
        while k < longest:
            live = k < count
            at = tl.load(order + begin + k, mask=live, other=0)
            i = tl.load(target + at, mask=live, other=0).to(tl.int64)
            r = read_key(key, tl.load(edge + at, mask=live, other=0), live, KIND)
            seen = live[:, None] & inside
            e = edge_states(values, r, seen, column, width, slope, offset, KIND)
            back = tl.load(grad + i[:, None] * width + column, mask=seen, other=0.0)
            sent = own + (tl.maximum(e, 0.0) if KIND == LINE else e)
            back = tl.where(sent > 0, back, 0.0)
            total += back
            if KIND == TABLE:
                named = r[None, :] == entry[:, None]
                of_table += tl.where(named[:, :, None], back[None, :, :], 0.0)
            if KIND == LINE:
                back = tl.where(e > 0, back, 0.0)
                of_slope += back * r[:, None]
                of_offset += back
            k += 1
        tl.store(grad_c + place, total, mask=shown)
        step += 1
    base = partial + part * (size + 1) * width + column
    tl.store(base + size * width, tl.sum(of_eps, axis=0)[None, :], mask=inside)
    if KIND == TABLE:
        place = base + entry[:, None] * width
        tl.store(place, tl.sum(of_table, axis=1), mask=(entry < size)[:, None] & inside)
    if KIND == LINE:
        tl.store(base, tl.sum(of_slope, axis=0)[None, :], mask=inside)
        tl.store(base + width, tl.sum(of_offset, axis=0)[None, :], mask=inside)


@triton.jit
def _to_edges(
    grad,
    c,
    e,
    ptr,
    order,
    source,
    target,
    grad_e,
    size,
    width,
    GROUPS: tl.constexpr,
    C: tl.constexpr,
):
    row = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    there, inside = row < size, column < width
    begin = tl.load(ptr + row, mask=there, other=0)
    count = tl.load(ptr + row + 1, mask=there, other=0) - begin
    longest = tl.max(count, axis=0)
    place = row.to(tl.int64)[:, None] * width + column
    shown = there[:, None] & inside
    own = tl.load(e + place, mask=shown, other=0.0)
    total = tl.zeros_like(own)
    k = 0
    while k < longest:
        live = k < count
        at = tl.load(order + begin + k, mask=live, other=0)
        i = tl.load(target + at, mask=live, other=0).to(tl.int64)
        j = tl.load(source + at, mask=live, other=0).to(tl.int64)
        seen = live[:, None] & inside
        sent = own + tl.load(c + j[:, None] * width + column, mask=seen, other=0.0)
        back = tl.load(grad + i[:, None] * width + column, mask=seen, other=0.0)
        total += tl.where(sent > 0, back, 0.0)
        k += 1
    tl.store(grad_e + place, total, mask=shown)

"""GINE's messages, summed where they are made: no row for every edge copy.

Each program waits for rows it gathers: in every round of its loop it asks for these,
then for the places of the next ones, and only then computes.
"""

import triton
import triton.language as tl
from torch import Tensor

from gnnak.nn.kernels.fast.sums import add_up
from gnnak.nn.kernels.fast.tiles import Cut, parts
from gnnak.nn.kernels.records import Edges, EdgeStates

SUMS = Cut(16, 32, 1)
"""How copies are cut whose messages are summed."""
BACK = Cut(32, 16, 1)
"""How copies are cut whose gradients are."""
EDGES = Cut(4, 64, 1)
"""How edges are cut."""
PARTS = 1024
"""Programs for one tile of columns, at most about, that sum up gradients of a line."""


def messages(c: Tensor, e: EdgeStates, eps: Tensor, edges: Edges) -> Tensor:
    """(1 + eps) c_i + sum over edges j -> i of ReLU(c_j + e_ji), [m, w].

    Arguments as of the plain kernel.
    """
    (rows, width), out = c.shape, c.new_empty(c.shape)
    _messages[SUMS.grid(rows, width)](
        c,
        e.values.contiguous(),
        eps,
        edges.by_target.ptr,
        edges.source,
        edges.edge if e.number is None else e.number,
        out,
        rows,
        width,
        e.number is not None,
        *SUMS.tile(width),
        num_warps=SUMS.warps,
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

    Arguments as of the plain kernel.
    """
    (rows, width), is_line = c.shape, e.number is not None
    count, steps = parts(rows, BACK.rows, PARTS if is_line else rows)
    grid = (count, BACK.grid(rows, width)[1])
    grad_eps = c.new_empty(grid)
    partial = c.new_empty(count, 2, width) if is_line else c
    _to_copies[grid](
        grad,
        c,
        e.values.contiguous(),
        eps,
        more,
        edges.by_source.ptr,
        edges.by_source.order,
        edges.target,
        e.number if is_line else edges.edge,
        into,
        grad_eps,
        partial,
        rows,
        width,
        steps,
        is_line,
        *BACK.tile(width),
        num_warps=BACK.warps,
    )
    grad_e = add_up(partial) if is_line else _grad_of_rows(grad, c, e.values, edges)
    return grad_e, grad_eps.sum().view(eps.shape)


def _grad_of_rows(grad: Tensor, c: Tensor, e: Tensor, edges: Edges) -> Tensor:
    """The gradient of states of edges, [e, w]."""
    (size, width), grad_e = e.shape, c.new_empty(e.shape)
    _to_edges[EDGES.grid(size, width)](
        grad,
        c,
        e.contiguous(),
        edges.by_edge.ptr,
        edges.by_edge.order,
        edges.source,
        edges.target,
        grad_e,
        size,
        width,
        *EDGES.tile(width),
        num_warps=EDGES.warps,
    )
    return grad_e


@triton.jit
def read_line(e, column, inside, width, LINE: tl.constexpr):
    """Slope and offset of a line; zeros for what is none."""
    asked = inside & LINE
    slope = tl.load(e + column, mask=asked, other=0.0)
    return slope, tl.load(e + width + column, mask=asked, other=0.0)


@triton.jit
def edge_states(e, of, seen, column, width, slope, offset, LINE: tl.constexpr):
    """States of edges, rows or numbers of a line; those not seen are 0."""
    if LINE:
        states = tl.maximum(of[:, None] * slope + offset, 0.0)
        return tl.where(seen, states, 0.0)
    place = of.to(tl.int64)[:, None] * width + column
    return tl.load(e + place, mask=seen, other=0.0)


@triton.jit
def _messages(
    c,
    e,
    eps,
    ptr,
    source,
    edge,
    out,
    m,
    width,
    LINE: tl.constexpr,
    GROUPS: tl.constexpr,
    C: tl.constexpr,
):
    row = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    there, inside = row < m, column < width
    slope, offset = read_line(e, column, inside, width, LINE)
    begin = tl.load(ptr + row, mask=there, other=0)
    count = tl.load(ptr + row + 1, mask=there, other=0) - begin
    longest = tl.max(count, axis=0)
    place = row.to(tl.int64)[:, None] * width + column
    shown = there[:, None] & inside
    total = (1 + tl.load(eps)) * tl.load(c + place, mask=shown, other=0.0)
    j = tl.load(source + begin, mask=count > 0, other=0).to(tl.int64)
    of = tl.load(edge + begin, mask=count > 0, other=0)
    k = 0
    while k < longest:
        seen = (k < count)[:, None] & inside
        sent = tl.load(c + j[:, None] * width + column, mask=seen, other=0.0)
        states = edge_states(e, of, seen, column, width, slope, offset, LINE)
        k += 1
        j = tl.load(source + begin + k, mask=k < count, other=0).to(tl.int64)
        of = tl.load(edge + begin + k, mask=k < count, other=0)
        total += tl.maximum(sent + states, 0.0)
    tl.store(out + place, total, mask=shown)


@triton.jit
def _to_copies(
    grad,
    c,
    e,
    eps,
    more,
    ptr,
    order,
    target,
    edge,
    grad_c,
    grad_eps,
    partial,
    m,
    width,
    steps,
    LINE: tl.constexpr,
    GROUPS: tl.constexpr,
    C: tl.constexpr,
):
    """Gradients of the copies of each part, and its share of that of a line."""
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    inside = column < width
    slope, offset = read_line(e, column, inside, width, LINE)
    of_eps = tl.zeros([GROUPS, C], dtype=grad_c.dtype.element_ty)
    of_slope = tl.zeros([GROUPS, C], dtype=grad_c.dtype.element_ty)
    of_offset = tl.zeros([GROUPS, C], dtype=grad_c.dtype.element_ty)
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
        total = tl.load(more + place, mask=shown, other=0.0)
        at = tl.load(order + begin, mask=count > 0, other=0)
        i = tl.load(target + at, mask=count > 0, other=0).to(tl.int64)
        of = tl.load(edge + at, mask=count > 0, other=0)
        at = tl.load(order + begin + 1, mask=count > 1, other=0)
        of_eps += own * back
        total += (1 + tl.load(eps)) * back
        k = 0
        while k < longest:
            seen = (k < count)[:, None] & inside
            back = tl.load(grad + i[:, None] * width + column, mask=seen, other=0.0)
            states = edge_states(e, of, seen, column, width, slope, offset, LINE)
            number = of
            k += 1
            i = tl.load(target + at, mask=k < count, other=0).to(tl.int64)
            of = tl.load(edge + at, mask=k < count, other=0)
            at = tl.load(order + begin + k + 1, mask=k + 1 < count, other=0)
            back = tl.where(own + states > 0, back, 0.0)
            total += back
            if LINE:
                back = tl.where(states > 0, back, 0.0)
                of_slope += back * number[:, None]
                of_offset += back
        tl.store(grad_c + place, total, mask=shown)
        step += 1
    number = part * tl.num_programs(1) + tl.program_id(1)
    tl.store(grad_eps + number, tl.sum(tl.sum(of_eps, axis=1), axis=0))
    if LINE:
        place = partial + 2 * part * width + column
        tl.store(place, tl.sum(of_slope, axis=0)[None, :], mask=inside)
        tl.store(place + width, tl.sum(of_offset, axis=0)[None, :], mask=inside)


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
    at = tl.load(order + begin, mask=count > 0, other=0)
    i = tl.load(target + at, mask=count > 0, other=0).to(tl.int64)
    j = tl.load(source + at, mask=count > 0, other=0).to(tl.int64)
    at = tl.load(order + begin + 1, mask=count > 1, other=0)
    k = 0
    while k < longest:
        seen = (k < count)[:, None] & inside
        sent = tl.load(c + j[:, None] * width + column, mask=seen, other=0.0)
        back = tl.load(grad + i[:, None] * width + column, mask=seen, other=0.0)
        k += 1
        i = tl.load(target + at, mask=k < count, other=0).to(tl.int64)
        j = tl.load(source + at, mask=k < count, other=0).to(tl.int64)
        at = tl.load(order + begin + k + 1, mask=k + 1 < count, other=0)
        total += tl.where(own + sent > 0, back, 0.0)
    tl.store(grad_e + place, total, mask=shown)

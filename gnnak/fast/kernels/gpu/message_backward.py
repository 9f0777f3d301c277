"""Gradients of GINE's messages: of copies, of edges, and of a line they are on."""

import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.message import edge_state, read_line
from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.sums import add_up
from gnnak.fast.kernels.gpu.tiles import EACH, parts, whole
from gnnak.fast.kernels.records import Edges, EdgeStates

PARTS = 4096
"""Programs for one tile of columns, at most about, that sum up gradients of a line."""


def messages_backward(
    grad: Tensor, c: Tensor, e: EdgeStates, eps: Tensor, edges: Edges, more: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `messages`: of c [m, w], of the values of e, and of eps.

    Arguments as of the plain kernel.
    """
    (rows, width), is_line = c.shape, e.number is not None
    count, each = parts(rows, 1, PARTS if is_line else triton.cdiv(rows, EACH))
    grid = (count, triton.cdiv(width, whole(width)))
    grad_c, grad_eps = c.new_empty(c.shape), c.new_empty(grid)
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
        grad_c,
        grad_eps,
        partial,
        rows,
        width,
        each,
        is_line,
        whole(width),
        num_warps=1,
    )
    grad_e = add_up(partial) if is_line else _grad_of_rows(grad, c, e.values, edges)
    return grad_c, grad_e, grad_eps.sum().view(eps.shape)


def _grad_of_rows(grad: Tensor, c: Tensor, e: Tensor, edges: Edges) -> Tensor:
    """The gradient of states of edges, [e, w]."""
    (size, width), grad_e = e.shape, c.new_empty(e.shape)
    _to_edges[(max(size, 1), triton.cdiv(width, whole(width)))](
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
        whole(width),
        num_warps=1,
    )
    return grad_e


@for_all_sizes
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
    each,
    LINE: tl.constexpr,
    C: tl.constexpr,
):
    """Gradients of the copies of each part, and its share of that of a line."""
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    slope, offset = read_line(e, column, inside, width, LINE)
    of_eps = tl.zeros([C], dtype=grad_c.dtype.element_ty)
    of_slope = tl.zeros([C], dtype=grad_c.dtype.element_ty)
    of_offset = tl.zeros([C], dtype=grad_c.dtype.element_ty)
    row = part * each
    last = tl.minimum(row + each, m)
    while row < last:
        k, end = tl.load(ptr + row), tl.load(ptr + row + 1)
        at = tl.load(order + k, mask=k < end, other=0)
        i = tl.load(target + at, mask=k < end, other=0)
        of = tl.load(edge + at, mask=k < end, other=0)
        at = tl.load(order + k + 1, mask=k + 1 < end, other=0)
        place = row.to(tl.int64) * width + column
        own = tl.load(c + place, mask=inside, other=0.0)
        back = tl.load(grad + place, mask=inside, other=0.0)
        total = tl.load(more + place, mask=inside, other=0.0)
        of_eps += own * back
        total += (1 + tl.load(eps)) * back
        while k < end:
            place_i = i.to(tl.int64) * width + column
            back = tl.load(grad + place_i, mask=inside, other=0.0)
            state = edge_state(e, of, column, inside, width, slope, offset, LINE)
            number = of
            k += 1
            i = tl.load(target + at, mask=k < end, other=0)
            of = tl.load(edge + at, mask=k < end, other=0)
            at = tl.load(order + k + 1, mask=k + 1 < end, other=0)
            back = tl.where(own + state > 0, back, 0.0)
            total += back
            if LINE:
                back = tl.where(state > 0, back, 0.0)
                of_slope += back * number
                of_offset += back
        tl.store(grad_c + place, total, mask=inside)
        row += 1
    number = part * tl.num_programs(1) + tl.program_id(1)
    tl.store(grad_eps + number, tl.sum(of_eps, axis=0))
    if LINE:
        place = partial + 2 * part * width + column
        tl.store(place, of_slope, mask=inside)
        tl.store(place + width, of_offset, mask=inside)


@for_all_sizes
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
    C: tl.constexpr,
):
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
    own = tl.load(e + place, mask=inside, other=0.0)
    total = tl.zeros_like(own)
    while k < end:
        sent = tl.load(c + j.to(tl.int64) * width + column, mask=inside, other=0.0)
        back = tl.load(grad + i.to(tl.int64) * width + column, mask=inside, other=0.0)
        k += 1
        i = tl.load(target + at, mask=k < end, other=0)
        j = tl.load(source + at, mask=k < end, other=0)
        at = tl.load(order + k + 1, mask=k + 1 < end, other=0)
        total += tl.where(own + sent > 0, back, 0.0)
    tl.store(grad_e + place, total, mask=inside)

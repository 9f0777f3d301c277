"""The gradients of GINE's messages, in Triton.

With g the gradient of the sums, a message j -> i passes g_i on where c_j + e_ji > 0:

grad_c_j = more_j + (1 + eps) g_j + sum over edges j -> i of g_i [c_j + e_ji > 0]

and the same terms summed by edge of the graph are the gradient of its state. One
program sums all terms of a copy, or of an edge, so there are no atomics, and no tensor
with one row per edge copy is written. A program is one warp, as in `message`.
"""

import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.message import edge_state, load_affine
from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.sums import add_up
from gnnak.fast.kernels.gpu.tiles import EACH, parts, wide_columns
from gnnak.fast.kernels.records import Edges, EdgeStates

PARTS = 4096
"""Approximate upper limit of the partial sums for the gradient of slope and offset."""


def messages_backward(
    grad: Tensor, c: Tensor, e: EdgeStates, eps: Tensor, edges: Edges, more: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of `messages`.

    Arguments as in `plain.messages_backward`. For affine edge states, the kernel for
    the copies also sums the gradients of slope and offset, since it computes the
    same terms anyway; for rows, a second kernel computes their gradients.

    Returns:
        Gradients of `c` [m, w], of `e.values` and of `eps`.
    """
    (rows, width), is_affine = c.shape, e.number is not None
    count, each = parts(rows, 1, PARTS if is_affine else triton.cdiv(rows, EACH))
    grid = (count, triton.cdiv(width, wide_columns(width)))
    grad_c, grad_eps = c.new_empty(c.shape), c.new_empty(grid)
    partial = c.new_empty(count, 2, width) if is_affine else c
    _to_copies[grid](
        grad,
        c,
        e.values.contiguous(),
        eps,
        more,
        edges.by_source.ptr,
        edges.by_source.order,
        edges.target,
        e.number if is_affine else edges.edge,
        grad_c,
        grad_eps,
        partial,
        rows,
        width,
        each,
        is_affine,
        wide_columns(width),
        num_warps=1,
    )
    grad_e = add_up(partial) if is_affine else _grad_of_rows(grad, c, e.values, edges)
    return grad_c, grad_e, grad_eps.sum().view(eps.shape)


def _grad_of_rows(grad: Tensor, c: Tensor, e: Tensor, edges: Edges) -> Tensor:
    """Compute the gradient of edge states that are rows, [e, w]."""
    (size, width), grad_e = e.shape, c.new_empty(e.shape)
    _to_edges[(max(size, 1), triton.cdiv(width, wide_columns(width)))](
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
        wide_columns(width),
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
    AFFINE: tl.constexpr,
    C: tl.constexpr,
):
    """Compute grad_c of `each` consecutive copies, and partial sums, in C columns.

    The partial sums of a program are its part of the gradient of eps and, with
    `AFFINE`, of slope and offset. `edge` holds the edge of each edge copy, or its
    number.
    """
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    slope, offset = load_affine(e, column, inside, width, AFFINE)
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
            state = edge_state(e, of, column, inside, width, slope, offset, AFFINE)
            number = of
            k += 1
            i = tl.load(target + at, mask=k < end, other=0)
            of = tl.load(edge + at, mask=k < end, other=0)
            at = tl.load(order + k + 1, mask=k + 1 < end, other=0)
            back = tl.where(own + state > 0, back, 0.0)
            total += back
            if AFFINE:
                back = tl.where(state > 0, back, 0.0)
                of_slope += back * number
                of_offset += back
        tl.store(grad_c + place, total, mask=inside)
        row += 1
    number = part * tl.num_programs(1) + tl.program_id(1)
    tl.store(grad_eps + number, tl.sum(of_eps, axis=0))
    if AFFINE:
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
    """Compute the gradient of the state of one edge, in C columns, with one warp."""
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

"""The sums in the gradients of GINE's messages, as functions of a Triton kernel.

`message_backward` has the formulas and explains the terms.
"""

import triton
import triton.language as tl

from gnnak.fast.kernels.gpu.message import (
    edge_state,
    find_state,
    load_affine,
    load_state,
)
from gnnak.fast.kernels.gpu.tiles import widened


@triton.jit
def to_copies(
    grad,
    c,
    table,
    node,
    rows,
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
    MORE: tl.constexpr,
    LIFTED: tl.constexpr,
    C: tl.constexpr,
):
    """Compute `each` rows of the gradient of `c`.

    For the same rows, write partial sums of the gradients of eps and, if `AFFINE`, of
    slope and offset. Arguments as in `_backward`.
    """
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    slope, offset = load_affine(e, column, inside, width, AFFINE)
    of_eps = widened(tl.zeros([C], dtype=grad_c.dtype.element_ty))
    of_slope, of_offset = tl.zeros_like(of_eps), tl.zeros_like(of_eps)
    row = part * each
    last = tl.minimum(row + each, m)
    while row < last:
        k, end = tl.load(ptr + row), tl.load(ptr + row + 1)
        at = tl.load(order + k, mask=k < end, other=0)
        i = tl.load(target + at, mask=k < end, other=0)
        of = tl.load(edge + at, mask=k < end, other=0)
        at = tl.load(order + k + 1, mask=k + 1 < end, other=0)
        place = row.to(tl.int64) * width + column
        own_node, own_hop = find_state(node, rows, row, row < last, LIFTED)
        own = load_state(c, table, own_node, own_hop, column, inside, width, LIFTED)
        back = widened(tl.load(grad + place, mask=inside, other=0.0))
        of_eps += own * back
        total = (1 + widened(tl.load(eps))) * back
        if MORE:
            total += tl.load(more + place, mask=inside, other=0.0)
        while k < end:
            place_i = i.to(tl.int64) * width + column
            back = widened(tl.load(grad + place_i, mask=inside, other=0.0))
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


@triton.jit
def to_edge(
    grad,
    c,
    table,
    node,
    rows,
    e,
    ptr,
    order,
    source,
    target,
    grad_e,
    size,
    width,
    LIFTED: tl.constexpr,
    C: tl.constexpr,
):
    """Compute the gradient of one edge's state.

    The gradient is a sum over all rooted subgraphs that contain the edge. Arguments as
    in `_backward`, with the edge copies by edge.
    """
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

"""GINE's messages, summed where they are made: no row for every edge copy."""

import triton
import triton.language as tl
from torch import Tensor

from gnnak.nn.kernels.fast.tiles import GROUPS, columns, tiles
from gnnak.nn.kernels.records import Edges


def messages(c: Tensor, e: Tensor, eps: Tensor, edges: Edges) -> Tensor:
    """(1 + eps) c_i + sum over edges j -> i of ReLU(c_j + e_ji), [m, w]."""
    width, out = c.size(1), c.new_empty(c.shape)
    _messages[tiles(c.size(0), GROUPS, width)](
        c,
        e.contiguous(),
        eps,
        edges.by_target.ptr,
        edges.source,
        edges.edge,
        out,
        c.size(0),
        width,
        GROUPS,
        columns(width),
    )
    return out


def messages_backward(
    grad: Tensor, c: Tensor, e: Tensor, eps: Tensor, edges: Edges
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `messages`: of c [m, w], of e [e, w] and of eps []."""
    width, e = c.size(1), e.contiguous()
    grad_c, grad_e = c.new_empty(c.shape), e.new_empty(e.shape)
    grid = tiles(c.size(0), GROUPS, width)
    grad_eps = c.new_empty(grid)
    _to_copies[grid](
        grad,
        c,
        e,
        eps,
        edges.by_source.ptr,
        edges.by_source.order,
        edges.target,
        edges.edge,
        grad_c,
        grad_eps,
        c.size(0),
        width,
        GROUPS,
        columns(width),
    )
    _to_edges[tiles(e.size(0), GROUPS, width)](
        grad,
        c,
        e,
        edges.by_edge.ptr,
        edges.by_edge.order,
        edges.source,
        edges.target,
        grad_e,
        e.size(0),
        width,
        GROUPS,
        columns(width),
    )
    return grad_c, grad_e, grad_eps.sum().view(eps.shape)


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
    GROUPS: tl.constexpr,
    C: tl.constexpr,
):
    row = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    there, inside = row < m, column < width
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
        r = tl.load(edge + at, mask=live, other=0).to(tl.int64)
        seen = live[:, None] & inside
        sent = tl.load(c + j[:, None] * width + column, mask=seen, other=0.0)
        sent += tl.load(e + r[:, None] * width + column, mask=seen, other=0.0)
        total += tl.maximum(sent, 0.0)
        k += 1
    tl.store(out + place, total, mask=shown)


@triton.jit
def _to_copies(
    grad,
    c,
    e,
    eps,
    ptr,
    order,
    target,
    edge,
    grad_c,
    grad_eps,
    m,
    width,
    GROUPS: tl.constexpr,
    C: tl.constexpr,
):
    row = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    there, inside = row < m, column < width
    begin = tl.load(ptr + row, mask=there, other=0)
    count = tl.load(ptr + row + 1, mask=there, other=0) - begin
    longest = tl.max(count, axis=0)
    place = row.to(tl.int64)[:, None] * width + column
    shown = there[:, None] & inside
    own = tl.load(c + place, mask=shown, other=0.0)
    back = tl.load(grad + place, mask=shown, other=0.0)
    of_eps = tl.sum(tl.sum(own * back, axis=1), axis=0)
    number = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    tl.store(grad_eps + number, of_eps)
    total = (1 + tl.load(eps)) * back
    k = 0
    while k < longest:
        live = k < count
        at = tl.load(order + begin + k, mask=live, other=0)
        i = tl.load(target + at, mask=live, other=0).to(tl.int64)
        r = tl.load(edge + at, mask=live, other=0).to(tl.int64)
        seen = live[:, None] & inside
        sent = own + tl.load(e + r[:, None] * width + column, mask=seen, other=0.0)
        back = tl.load(grad + i[:, None] * width + column, mask=seen, other=0.0)
        total += tl.where(sent > 0, back, 0.0)
        k += 1
    tl.store(grad_c + place, total, mask=shown)


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

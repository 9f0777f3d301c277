"""GINE's messages in every rooted subgraph and their gradients, in Triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.tiles import (
    EACH,
    cdiv,
    for_all_sizes,
    parts,
    sum_dtype,
    wide_columns,
    widened,
)
from gnnak.fast.kernels.records import Edges, Lifted

MANY = 16
"""Rows per program in the backward pass if all edges share one state. A large number
limits the memory of the partial gradients of this state, one for each program."""


def messages(c: Tensor | Lifted, e: Tensor, eps: Tensor, edges: Edges) -> Tensor:
    """Compute GINE's sums of messages, as `plain.messages` does, in one kernel."""
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
    """Return kernel arguments c, table, node, rows and LIFTED, and an empty output."""
    if not isinstance(c, Lifted):
        return c, c, c, c, False, torch.empty_like(c)
    out = c.x.new_empty(c.node.size(0), c.x.size(1))
    return *c, True, out


@triton.jit
def find_state(node, rows, j, live, LIFTED: tl.constexpr):
    """Return the row numbers in `c` and in the table for the state of node copy `j`.

    Nothing is read where `live` is False.
    """
    at, hop = j.to(tl.int64), j.to(tl.int64)
    if LIFTED:
        at = tl.load(node + j, mask=live, other=0).to(tl.int64)
        hop = tl.load(rows + j, mask=live, other=0).to(tl.int64)
    return at, hop


@triton.jit
def load_state(c, table, at, hop, column, inside, width, LIFTED: tl.constexpr):
    """Load the columns `column` of the state of a node copy.

    If `LIFTED`, `c` has a row per node, and the state is row `at` of `c` plus row `hop`
    of the table. Else `c` has a row per node copy, and the state is row `at` of `c`.
    """
    value = widened(tl.load(c + at * width + column, mask=inside, other=0.0))
    if LIFTED:
        value += widened(tl.load(table + hop * width + column, inside, 0.0))
    return value


@triton.jit
def find_edge(edge, at, live, SAME: tl.constexpr):
    """Return the edge of an edge copy; if all edges have the `SAME` state, return 0."""
    if SAME:
        return at * 0
    return tl.load(edge + at, mask=live, other=0)


@triton.jit
def load_edge(e, same, of, column, inside, width, SAME: tl.constexpr):
    """Load the columns `column` of an edge's state, which is row `of` of `e`.

    If all edges have the `SAME` state, return `same`, which holds this state.
    """
    if SAME:
        return same
    return widened(tl.load(e + of.to(tl.int64) * width + column, inside, 0.0))


@for_all_sizes
def _messages(
    c, table, node, rows, e, eps, ptr, source, edge, out, m, width, each,
    LIFTED: tl.constexpr, SAME: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Triton kernel of `messages`: a program computes `each` rows of the result."""
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
    """Compute `each` rows of the gradient of `c`, and their share of that of `eps`.

    If all edges have the `SAME` state, also compute the rows' share of its gradient.
    """
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
    """Compute the gradients of `c`, `e` and, if `with_eps`, `eps` in `messages`."""
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
    """Compute the gradient of `c` if `program_id(2)` is 0, and of `e` if it is 1.

    If all edges have the `SAME` state, all programs compute the gradient of `c`, and
    with it partial gradients of this state.
    """
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

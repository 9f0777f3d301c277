"""GINE's messages in every rooted subgraph and their gradients, in Triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.tiles import (
    EACH,
    add_up,
    cdiv,
    for_all_sizes,
    parts,
    sum_dtype,
    wide_columns,
    widened,
)
from gnnak.fast.kernels.records import Edges, EdgeStates, Lifted


def messages(c: Tensor | Lifted, e: EdgeStates, eps: Tensor, edges: Edges) -> Tensor:
    """Return (1 + eps) c_i + sum over edges j -> i of ReLU(c_j + e_ji), as [m, w].

    This is GINE's aggregation, in every rooted subgraph.

    Args:
        c: States c_i of the m node copies, [m, w]. A node copy is a node as seen in one
            rooted subgraph. `Lifted` states are not stored.
        e: States e_ji of the edges: one row per edge of the graph or, in affine form,
            one number per edge of each rooted subgraph (see `EdgeStates.at`).
        eps: GINE's learned scalar, [1].
        edges: The edges j -> i of all rooted subgraphs, sorted by target i.
    """
    c, *lifting, is_lifted, out = read_states(c)
    rows, width = out.shape
    count, each = parts(rows, 1, cdiv(rows, EACH))
    _messages[(count, cdiv(width, wide_columns(width)))](
        c,
        *lifting,
        e.values.contiguous(),
        eps,
        edges.by_target.ptr,
        edges.source,
        edges.edge if e.number is None else e.number,
        out,
        rows,
        width,
        each,
        e.number is not None,
        is_lifted,
        wide_columns(width),
        num_warps=1,
    )
    return out


def read_states(
    c: Tensor | Lifted,
) -> tuple[Tensor, Tensor, Tensor, Tensor, bool, Tensor]:
    """Return how kernels read the states of node copies.

    Args:
        c: The states of the m node copies (nodes as seen in one rooted subgraph).

    Returns:
        The fields of `Lifted` and True, or the states, three tensors that are not read,
        and False; and an empty tensor of the shape and dtype of the states, [m, w].
    """
    if not isinstance(c, Lifted):
        return c, c, c, c, False, torch.empty_like(c)
    out = c.x.new_empty(c.node.size(0), c.x.size(1))
    return *c, True, out


@triton.jit
def find_state(node, rows, j, live, LIFTED: tl.constexpr):
    """Return where the state of a node copy is: its row of `c`, and of the table.

    Args:
        node: Pointer to the node of each node copy; used if `LIFTED`.
        rows: Pointer to each node copy's row of the table; used if `LIFTED`.
        j: The node copy.
        live: Mask: where False, nothing is read.
        LIFTED: Whether states are sums of a row of `c` and a row of the table.
    """
    at, hop = j.to(tl.int64), j.to(tl.int64)
    if LIFTED:
        at = tl.load(node + j, mask=live, other=0).to(tl.int64)
        hop = tl.load(rows + j, mask=live, other=0).to(tl.int64)
    return at, hop


@triton.jit
def load_state(c, table, at, hop, column, inside, width, LIFTED: tl.constexpr):
    """Return some columns of the state of a node copy.

    Args:
        c: Pointer to the states of node copies; of nodes if `LIFTED`.
        table: Pointer to the embeddings of distances; used if `LIFTED`.
        at: Row of `c`.
        hop: Row of the table.
        column: The columns to return.
        inside: The mask of columns that exist.
        width: Number of columns.
        LIFTED: Whether states are sums of a row of `c` and a row of the table.
    """
    value = widened(tl.load(c + at * width + column, mask=inside, other=0.0))
    if LIFTED:
        value += widened(tl.load(table + hop * width + column, inside, 0.0))
    return value


@triton.jit
def load_affine(e, column, inside, width, AFFINE: tl.constexpr):
    """Load slope and offset of edge states of the form ReLU(slope * number + offset).

    Args:
        e: Pointer to slope and offset, [2, width].
        column: The columns to load.
        inside: The mask of columns that exist.
        width: Number of columns.
        AFFINE: Whether the edge states have this form; if False, return zeros.
    """
    asked = inside & AFFINE
    slope = widened(tl.load(e + column, mask=asked, other=0.0))
    return slope, widened(tl.load(e + width + column, mask=asked, other=0.0))


@triton.jit
def edge_state(e, of, column, inside, width, slope, offset, AFFINE: tl.constexpr):
    """Load or compute some columns of the state of one edge.

    Args:
        e: Pointer to the states of all edges, [edges, width]; not used if `AFFINE`.
        of: The index of the edge or, if `AFFINE`, the raw number of the edge.
        column: The columns to return.
        inside: The mask of columns that exist.
        width: Number of columns.
        slope: The slope for each of these columns; used if `AFFINE`.
        offset: The offset for each of these columns; used if `AFFINE`.
        AFFINE: Whether to compute the state as ReLU(slope * number + offset); if False,
            load the state from `e`.
    """
    if AFFINE:
        return tl.maximum(of * slope + offset, 0.0)
    place = e + of.to(tl.int64) * width + column
    return widened(tl.load(place, mask=inside, other=0.0))


@for_all_sizes
def _messages(
    c,
    table,
    node,
    rows,
    e,
    eps,
    ptr,
    source,
    edge,
    out,
    m,
    width,
    each,
    AFFINE: tl.constexpr,
    LIFTED: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `messages`: one program computes a few rows of the result.

    `each` is the number of these rows, and `out` receives the result. `table`, `node`
    and `rows` are used if `LIFTED`, as in `find_state` and `load_state`. Other
    arguments as in `messages`.
    """
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    slope, offset = load_affine(e, column, inside, width, AFFINE)
    row = tl.program_id(0) * each
    last = tl.minimum(row + each, m)
    while row < last:
        at, end = tl.load(ptr + row), tl.load(ptr + row + 1)
        j = tl.load(source + at, mask=at < end, other=0)
        of = tl.load(edge + at, mask=at < end, other=0)
        from_j, hop_j = find_state(node, rows, j, at < end, LIFTED)
        j = tl.load(source + at + 1, mask=at + 1 < end, other=0)
        place = row.to(tl.int64) * width + column
        own_node, own_hop = find_state(node, rows, row, row < last, LIFTED)
        own = load_state(c, table, own_node, own_hop, column, inside, width, LIFTED)
        total = (1 + widened(tl.load(eps))) * own
        while at < end:
            sent = load_state(c, table, from_j, hop_j, column, inside, width, LIFTED)
            state = edge_state(e, of, column, inside, width, slope, offset, AFFINE)
            at += 1
            from_j, hop_j = find_state(node, rows, j, at < end, LIFTED)
            of = tl.load(edge + at, mask=at < end, other=0)
            j = tl.load(source + at + 1, mask=at + 1 < end, other=0)
            total += tl.maximum(sent + state, 0.0)
        tl.store(out + place, total, mask=inside)
        row += 1


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


PARTS = 4096
"""Approximate upper limit of the number of programs if edge states have the form
ReLU(slope * number + offset). Each program then writes a partial sum of the gradients
of slope and offset."""


def messages_backward(
    grad: Tensor,
    c: Tensor | Lifted,
    e: EdgeStates,
    eps: Tensor,
    edges: Edges,
    more: Tensor | None,
    with_eps: bool = True,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Compute the gradients of `messages`.

    Args:
        grad: Gradient of the result of `messages`, [m, w].
        c: States of the m node copies (nodes as seen in one rooted subgraph), [m, w].
        e: Edge states, as in `messages`.
        eps: GINE's learned scalar, [1].
        edges: The edges of all rooted subgraphs, as in `messages`.
        more: Gradient of `c` from other uses of `c`, added to the result, [m, w]; None
            = there is no other use.
        with_eps: Whether to compute the gradient of `eps`.

    Returns:
        Gradients of `c` [m, w], of `e.values` (same shape) and of `eps` [1]; None for
        `eps` if its gradient is not computed.
    """
    c, *lifting, is_lifted, grad_c = read_states(c)
    (rows, width), is_affine = grad_c.shape, e.number is not None
    count, each = parts(rows, 1, PARTS if is_affine else cdiv(rows, EACH))
    tiles = cdiv(width, wide_columns(width))
    dtype = sum_dtype(grad_c)
    grad_eps = c.new_empty(count, tiles, dtype=dtype)
    partial = c.new_empty(count, 2, width, dtype=dtype) if is_affine else c
    states = e.values.contiguous()
    grad_e = c if is_affine else torch.empty_like(states)
    size = 0 if is_affine else e.values.size(0)
    by_edge = edges.by_source if is_affine else edges.by_edge
    _backward[(max(count, size), tiles, 1 if is_affine else 2)](
        grad,
        c,
        *lifting,
        states,
        eps,
        c if more is None else more,
        edges.by_source.ptr,
        edges.by_source.order,
        by_edge.ptr,
        by_edge.order,
        edges.source,
        edges.target,
        e.number if is_affine else edges.edge,
        grad_c,
        grad_eps,
        partial,
        grad_e,
        rows,
        size,
        count,
        width,
        each,
        is_affine,
        more is not None,
        is_lifted,
        wide_columns(width),
        num_warps=1,
    )
    if is_affine:
        grad_e = add_up(partial).to(e.values.dtype)
    of_eps = grad_eps.sum().view(eps.shape).to(eps.dtype) if with_eps else None
    return grad_c, grad_e, of_eps


@for_all_sizes
def _backward(
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
    ptr_2,
    order_2,
    source,
    target,
    edge,
    grad_c,
    grad_eps,
    partial,
    grad_e,
    m,
    size,
    count,
    width,
    each,
    AFFINE: tl.constexpr,
    MORE: tl.constexpr,
    LIFTED: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `messages_backward`.

    The third index of the program says whether it computes rows of the gradient of `c`
    or, if there is one row of `e` per edge, a row of the gradient of `e`. Both in one
    kernel take one launch. `count` programs compute the gradient of `c`, `each` rows
    per program, from the edge copies by source (`ptr`, `order`); `size` programs that
    of `e`, from the edge copies by edge (`ptr_2`, `order_2`). `table`, `node` and
    `rows` are used if `LIFTED`, as in `find_state` and `load_state`. Other arguments as
    in `messages_backward`.
    """
    if tl.program_id(2) == 0:
        if tl.program_id(0) < count:
            to_copies(
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
                AFFINE,
                MORE,
                LIFTED,
                C,
            )
    else:
        to_edge(
            grad,
            c,
            table,
            node,
            rows,
            e,
            ptr_2,
            order_2,
            source,
            target,
            grad_e,
            size,
            width,
            LIFTED,
            C,
        )

"""The gradients of GINE's messages, in Triton.

A node copy is a node as seen in one rooted subgraph; an edge copy is an edge as seen in
one rooted subgraph. Let c_j be the state of node copy j, e_ji the state of the edge
from j to i, and g_i the gradient of GINE's sum at node copy i. [c_j + e_ji > 0] is 1
where the condition holds, else 0. The gradient of c_j is

grad_c_j = more_j + (1 + eps) g_j + sum over edges j -> i of g_i [c_j + e_ji > 0]

where more_j is a gradient from other uses of c_j. The gradient of an edge's state is
the sum of g_i [c_j + e_ji > 0] over all edge copies j -> i of that edge. One program (a
single warp) computes all terms of one sum, so no atomic additions are needed. No tensor
with one row per edge copy is written.
"""

import torch
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.message import read_states
from gnnak.fast.kernels.gpu.message_sums import to_copies, to_edge
from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.sums import add_up
from gnnak.fast.kernels.gpu.tiles import EACH, cdiv, parts, sum_dtype, wide_columns
from gnnak.fast.kernels.records import Edges, EdgeStates, Lifted

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

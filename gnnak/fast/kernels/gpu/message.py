"""GINE's messages in every rooted subgraph, computed and summed in one Triton kernel.

A node copy is a node as seen in one rooted subgraph; an edge copy is an edge as seen in
one rooted subgraph. The message along an edge from j to i is ReLU(c_j + e_ji), with the
state c_j of node copy j and the state e_ji of the edge. Messages stay in registers, so
no tensor with one row per edge copy is written. One program sums all messages to a node
copy, so no atomic additions are needed.

A program is one warp, which handles a few node copies one after the other. Loop bounds
and indices are the same for all threads of the warp, so no thread idles while another
finishes a longer sum. Each iteration loads a row, then the indices of the next row, and
only then computes, so that the latencies of the loads overlap.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.tiles import (
    EACH,
    cdiv,
    parts,
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

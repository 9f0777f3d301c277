"""GINE's messages, computed and summed in one Triton kernel.

The messages ReLU(c_j + e_ji) stay in registers: no tensor [f, w] with one row per edge
copy is written, and since one program sums all messages of a copy there are no atomics.

A program is one warp that handles a few node copies one after the other. Loop bounds
and indices are the same for all threads of the warp, so no thread idles while another
finishes a longer sum. Each iteration loads a row, then the indices of the next one, and
only then computes, so that the latencies of the loads overlap.
"""

import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.tiles import EACH, parts, wide_columns
from gnnak.fast.kernels.records import Edges, EdgeStates


def messages(c: Tensor, e: EdgeStates, eps: Tensor, edges: Edges) -> Tensor:
    """Return (1 + eps) c_i + sum over edges j -> i of ReLU(c_j + e_ji), as [m, w].

    Arguments as in `plain.messages`. Edge copies are sorted by target, so the messages
    to one copy are consecutive.
    """
    (rows, width), out = c.shape, c.new_empty(c.shape)
    count, each = parts(rows, 1, triton.cdiv(rows, EACH))
    _messages[(count, triton.cdiv(width, wide_columns(width)))](
        c,
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
        wide_columns(width),
        num_warps=1,
    )
    return out


@triton.jit
def load_affine(e, column, inside, width, AFFINE: tl.constexpr):
    """Load slope and offset of affine edge states; zeros without `AFFINE`."""
    asked = inside & AFFINE
    slope = tl.load(e + column, mask=asked, other=0.0)
    return slope, tl.load(e + width + column, mask=asked, other=0.0)


@triton.jit
def edge_state(e, of, column, inside, width, slope, offset, AFFINE: tl.constexpr):
    """Return the state of one edge copy.

    `of` is the edge whose row to load, or with `AFFINE` its number, of which the state
    is ReLU(slope * number + offset).
    """
    if AFFINE:
        return tl.maximum(of * slope + offset, 0.0)
    return tl.load(e + of.to(tl.int64) * width + column, mask=inside, other=0.0)


@for_all_sizes
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
    each,
    AFFINE: tl.constexpr,
    C: tl.constexpr,
):
    """Sum the messages to `each` consecutive copies, in C columns, with one warp.

    `edge` holds the edge of each edge copy, or with `AFFINE` its number.
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
        place = row.to(tl.int64) * width + column
        total = (1 + tl.load(eps)) * tl.load(c + place, mask=inside, other=0.0)
        while at < end:
            place_j = j.to(tl.int64) * width + column
            sent = tl.load(c + place_j, mask=inside, other=0.0)
            state = edge_state(e, of, column, inside, width, slope, offset, AFFINE)
            at += 1
            j = tl.load(source + at, mask=at < end, other=0)
            of = tl.load(edge + at, mask=at < end, other=0)
            total += tl.maximum(sent + state, 0.0)
        tl.store(out + place, total, mask=inside)
        row += 1

"""GINE's messages, summed where they are made: no row for every edge copy.

A program is one warp, and takes one copy, or edge, after the other: what it counts and
looks up is the same for all of its threads, and no thread waits for a longer sum than
its own. In every round it asks for a row, then for the place of the next one, and only
then computes.
"""

import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.tiles import EACH, parts, whole
from gnnak.fast.kernels.records import Edges, EdgeStates


def messages(c: Tensor, e: EdgeStates, eps: Tensor, edges: Edges) -> Tensor:
    """(1 + eps) c_i + sum over edges j -> i of ReLU(c_j + e_ji), [m, w].

    Arguments as of the plain kernel.
    """
    (rows, width), out = c.shape, c.new_empty(c.shape)
    count, each = parts(rows, 1, triton.cdiv(rows, EACH))
    _messages[(count, triton.cdiv(width, whole(width)))](
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
        whole(width),
        num_warps=1,
    )
    return out


@triton.jit
def read_line(e, column, inside, width, LINE: tl.constexpr):
    """Slope and offset of a line; zeros for what is none."""
    asked = inside & LINE
    slope = tl.load(e + column, mask=asked, other=0.0)
    return slope, tl.load(e + width + column, mask=asked, other=0.0)


@triton.jit
def edge_state(e, of, column, inside, width, slope, offset, LINE: tl.constexpr):
    """The state of an edge: a row, or what a line makes of a number."""
    if LINE:
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
    LINE: tl.constexpr,
    C: tl.constexpr,
):
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    slope, offset = read_line(e, column, inside, width, LINE)
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
            state = edge_state(e, of, column, inside, width, slope, offset, LINE)
            at += 1
            j = tl.load(source + at, mask=at < end, other=0)
            of = tl.load(edge + at, mask=at < end, other=0)
            total += tl.maximum(sent + state, 0.0)
        tl.store(out + place, total, mask=inside)
        row += 1

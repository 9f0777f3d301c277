"""GCN's normalised neighbour sum in every rooted subgraph, in Triton.

GCN's self loops are a term of the sum; no edges are inserted.
"""

import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.tiles import (
    GROUPS,
    cdiv,
    columns,
    for_all_sizes,
    sum_dtype,
    tiles,
    widened,
)
from gnnak.fast.kernels.records import Edges
from gnnak.subgraphs.groups import Groups

COPIES = 128
"""Number of degrees that one program of the Triton kernel `_gcn_scale` counts."""


def gcn_scale(like: Tensor, edges: Edges) -> Tensor:
    """Return GCN's factors d_i^(-1/2) for all node copies i, [m]."""
    copies = len(edges.by_target)
    out = like.new_empty(copies, dtype=sum_dtype(like))
    _gcn_scale[(max(cdiv(copies, COPIES), 1),)](
        edges.by_target.ptr, edges.source, out, copies, COPIES
    )
    return out


def gcn_sum(
    h: Tensor, scale: Tensor, bias: Tensor | None, end: Tensor, groups: Groups
) -> Tensor:
    """Return scale_i (scale_i h_i + sum of scale_j h_j over j != i) + bias."""
    width, out = h.size(1), h.new_empty(h.shape)
    _gcn_sum[tiles(h.size(0), GROUPS, width)](
        h, scale,
        h if bias is None else bias,
        groups.ptr,
        groups.ptr if groups.order is None else groups.order,
        end, out, h.size(0), width,
        bias is not None,
        groups.order is not None,
        GROUPS, columns(width),
    )  # fmt: skip
    return out


@for_all_sizes
def _gcn_scale(ptr, source, out, m, COPIES: tl.constexpr):
    """Count the neighbours of `COPIES` node copies and write 1 / sqrt(1 + count)."""
    row = tl.program_id(0) * COPIES + tl.arange(0, COPIES)
    there = row < m
    begin = tl.load(ptr + row, mask=there, other=0)
    count = tl.load(ptr + row + 1, mask=there, other=0) - begin
    longest = tl.max(count, axis=0)
    degree = tl.full([COPIES], 1, dtype=tl.int32)
    k = 0
    while k < longest:
        live = k < count
        j = tl.load(source + begin + k, mask=live, other=0)
        degree += (live & (j != row)).to(tl.int32)
        k += 1
    degrees = widened(tl.zeros([COPIES], dtype=out.dtype.element_ty)) + degree
    tl.store(out + row, 1 / tl.sqrt(degrees), mask=there)


@for_all_sizes
def _gcn_sum(
    h, scale, bias, ptr, order, end, out, m, width,
    BIASED: tl.constexpr, ORDERED: tl.constexpr, GROUPS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Compute the sums of `GROUPS` node copies."""
    row = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    there, inside = row < m, column < width
    begin = tl.load(ptr + row, mask=there, other=0)
    count = tl.load(ptr + row + 1, mask=there, other=0) - begin
    longest = tl.max(count, axis=0)
    place = row.to(tl.int64)[:, None] * width + column
    shown = there[:, None] & inside
    own = widened(tl.load(scale + row, mask=there, other=0.0))[:, None]
    total = own * widened(tl.load(h + place, mask=shown, other=0.0))
    # Iteration k adds the k-th neighbour of every node copy that has one.
    k = 0
    while k < longest:
        live = k < count
        at = begin + k
        if ORDERED:
            at = tl.load(order + at, mask=live, other=0)
        j = tl.load(end + at, mask=live, other=0).to(tl.int64)
        live = live & (j != row)
        factor = widened(tl.load(scale + j, mask=live, other=0.0))[:, None]
        seen = live[:, None] & inside
        sent = widened(tl.load(h + j[:, None] * width + column, mask=seen, other=0.0))
        total += factor * sent
        k += 1
    total *= own
    if BIASED:
        total += widened(tl.load(bias + column, mask=inside, other=0.0))
    tl.store(out + place, total, mask=shown)

"""Products with sparse matrices: weighted sums over groups of rows."""

import triton
import triton.language as tl
from torch import Tensor

from gnnak.nn.kernels.fast.tiles import GROUPS, columns, tiles
from gnnak.subgraphs.groups import Groups


def weighted_sum(
    values: Tensor, index: Tensor, weight: Tensor, groups: Groups
) -> Tensor:
    """Sum of `weight[q] * values[index[q]]` over the entries q of a group, [k, c]."""
    width = values.size(1)
    out = values.new_empty(len(groups), width)
    _weighted_sum[tiles(len(groups), GROUPS, width)](
        values,
        values.stride(0),
        index,
        weight,
        groups.ptr,
        groups.ptr if groups.order is None else groups.order,
        out,
        len(groups),
        width,
        groups.order is not None,
        GROUPS,
        columns(width),
    )
    return out


@triton.jit
def _weighted_sum(
    values,
    stride,
    index,
    weight,
    ptr,
    order,
    out,
    size,
    width,
    ORDERED: tl.constexpr,
    GROUPS: tl.constexpr,
    C: tl.constexpr,
):
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    column = tl.program_id(1) * C + tl.arange(0, C)
    there, inside = group < size, column < width
    begin = tl.load(ptr + group, mask=there, other=0)
    count = tl.load(ptr + group + 1, mask=there, other=0) - begin
    longest = tl.max(count, axis=0)
    total = tl.zeros([GROUPS, C], dtype=out.dtype.element_ty)
    k = 0
    while k < longest:
        live = k < count
        entry = begin + k
        if ORDERED:
            entry = tl.load(order + entry, mask=live, other=0)
        row = tl.load(index + entry, mask=live, other=0).to(tl.int64)
        share = tl.load(weight + entry, mask=live, other=0.0).to(total.dtype)
        value = tl.load(
            values + row[:, None] * stride + column[None, :],
            mask=live[:, None] & inside[None, :],
            other=0.0,
        )
        total += share[:, None] * value
        k += 1
    place = group.to(tl.int64)[:, None] * width + column[None, :]
    tl.store(out + place, total, mask=there[:, None] & inside[None, :])

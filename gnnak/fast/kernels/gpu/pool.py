"""Batch norm, ReLU, gate and segment sum in one Triton kernel.

This is the pooling of GNN-AK. There is a row for each node copy (a node as seen in one
rooted subgraph). Rows are normalised, multiplied by a gate that depends on the hop (the
distance from the root), and summed by subgraph or by node.
"""

import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.tiles import (
    cdiv,
    load_index,
    wide_columns,
)
from gnnak.fast.kernels.records import NormConstants
from gnnak.subgraphs.groups import Groups


def gate_pool(
    z: Tensor, k: NormConstants, gate: Tensor | None, rows: Tensor, groups: Groups
) -> Tensor:
    """Return the sum of `gate[rows] * ReLU(scale z + shift)` over each group of rows.

    `z` is read once, and intermediate values stay in registers. One program sums all
    node copies of one group, so no atomic additions are needed.

    Args:
        z: One row for each of the m node copies (nodes as seen in one rooted subgraph),
            before the norm, [m, c].
        k: The batch norm's scale and shift.
        gate: Factors for each of t hops (distances from the root), [t, c]; None = 1.
        rows: The row of `gate` for each node copy, [m].
        groups: Which node copies are summed into each output row.

    Returns:
        One sum per group, [number of groups, c].
    """
    width = z.size(1)
    out = z.new_empty(len(groups), width)
    _gate_pool[(max(len(groups), 1), cdiv(width, wide_columns(width)))](
        z,
        z.stride(0),
        k.scale,
        k.shift,
        z if gate is None else gate,
        0 if gate is None else gate.stride(0),
        rows,
        groups.ptr,
        groups.ptr if groups.order is None else groups.order,
        out,
        len(groups),
        width,
        gate is not None,
        groups.order is not None,
        wide_columns(width),
        num_warps=1,
    )
    return out


@for_all_sizes
def _gate_pool(
    z,
    stride,
    scale,
    shift,
    gate,
    gate_stride,
    rows,
    ptr,
    order,
    out,
    size,
    width,
    GATED: tl.constexpr,
    ORDERED: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `gate_pool`: one program computes the sum of one group.

    Arguments as in `gate_pool`; `out` receives the sums.
    """
    group = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = (column < width) & (group < size)
    k = tl.load(ptr + group, mask=group < size, other=0)
    end = tl.load(ptr + group + 1, mask=group < size, other=0)
    scale_ = tl.load(scale + column, mask=inside, other=0.0)
    shift_ = tl.load(shift + column, mask=inside, other=0.0)
    copy = load_index(order, k, k < end, ORDERED)
    copy_2 = load_index(order, k + 1, k + 1 < end, ORDERED)
    total = tl.zeros([C], dtype=out.dtype.element_ty)
    # Load two rows, then the indices of the next two, and only then add: the latencies
    # of the loads overlap.
    while k < end:
        both = inside & (k + 1 < end)
        value = tl.load(z + copy.to(tl.int64) * stride + column, mask=inside, other=0.0)
        value_2 = tl.load(
            z + copy_2.to(tl.int64) * stride + column, mask=both, other=0.0
        )
        value = tl.maximum(value * scale_ + shift_, 0.0)
        value_2 = tl.maximum(value_2 * scale_ + shift_, 0.0)
        if GATED:
            entry = tl.load(rows + copy).to(tl.int64)
            entry_2 = tl.load(rows + copy_2, mask=k + 1 < end, other=0).to(tl.int64)
            value *= tl.load(
                gate + entry * gate_stride + column, mask=inside, other=0.0
            )
            value_2 *= tl.load(
                gate + entry_2 * gate_stride + column, mask=both, other=0.0
            )
        k += 2
        copy = load_index(order, k, k < end, ORDERED)
        copy_2 = load_index(order, k + 1, k + 1 < end, ORDERED)
        total += value + tl.where(both, value_2, 0.0)
    tl.store(out + group.to(tl.int64) * width + column, total, mask=inside)

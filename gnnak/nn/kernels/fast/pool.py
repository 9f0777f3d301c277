"""Norm, ReLU, gate and segment sum in one pass."""

import triton
import triton.language as tl
from torch import Tensor

from gnnak.nn.kernels.fast.tiles import read_place, whole
from gnnak.nn.kernels.records import Constants
from gnnak.subgraphs.groups import Groups


def gate_pool(
    z: Tensor, k: Constants, gate: Tensor | None, rows: Tensor, groups: Groups
) -> Tensor:
    """Sum over groups of `gate[rows] * ReLU(scale z + shift)`, [k, c]."""
    width = z.size(1)
    out = z.new_empty(len(groups), width)
    _gate_pool[(max(len(groups), 1), triton.cdiv(width, whole(width)))](
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
        whole(width),
        num_warps=1,
    )
    return out


@triton.jit
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
    group = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = (column < width) & (group < size)
    k = tl.load(ptr + group, mask=group < size, other=0)
    end = tl.load(ptr + group + 1, mask=group < size, other=0)
    scale_ = tl.load(scale + column, mask=inside, other=0.0)
    shift_ = tl.load(shift + column, mask=inside, other=0.0)
    copy = read_place(order, k, k < end, ORDERED)
    entry = tl.load(rows + copy, mask=(k < end) & GATED, other=0)
    next_copy = read_place(order, k + 1, k + 1 < end, ORDERED)
    total = tl.zeros([C], dtype=out.dtype.element_ty)
    while k < end:
        place = copy.to(tl.int64) * stride + column
        value = tl.load(z + place, mask=inside, other=0.0)
        if GATED:
            place = entry.to(tl.int64) * gate_stride + column
            share = tl.load(gate + place, mask=inside, other=0.0)
        k += 1
        copy = next_copy
        entry = tl.load(rows + copy, mask=(k < end) & GATED, other=0)
        next_copy = read_place(order, k + 1, k + 1 < end, ORDERED)
        value = tl.maximum(value * scale_ + shift_, 0.0)
        total += value * share if GATED else value
    tl.store(out + group.to(tl.int64) * width + column, total, mask=inside)

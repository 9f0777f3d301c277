"""Norm, ReLU, gate and segment sum in one pass."""

import triton
import triton.language as tl
from torch import Tensor

from gnnak.nn.kernels.fast.tiles import GROUPS, columns, tiles
from gnnak.nn.kernels.records import Constants
from gnnak.subgraphs.groups import Groups


def gate_pool(
    z: Tensor, k: Constants, gate: Tensor | None, rows: Tensor, groups: Groups
) -> Tensor:
    """Sum over groups of `gate[rows] * ReLU(scale z + shift)`, [k, c]."""
    width = z.size(1)
    out = z.new_empty(len(groups), width)
    _gate_pool[tiles(len(groups), GROUPS, width)](
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
        GROUPS,
        columns(width),
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
    GROUPS: tl.constexpr,
    C: tl.constexpr,
):
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    column = tl.program_id(1) * C + tl.arange(0, C)
    there, inside = group < size, column < width
    begin = tl.load(ptr + group, mask=there, other=0)
    count = tl.load(ptr + group + 1, mask=there, other=0) - begin
    longest = tl.max(count, axis=0)
    scale_ = tl.load(scale + column, mask=inside, other=0.0)[None, :]
    shift_ = tl.load(shift + column, mask=inside, other=0.0)[None, :]
    total = tl.zeros([GROUPS, C], dtype=out.dtype.element_ty)
    k = 0
    while k < longest:
        live = k < count
        copy = begin + k
        if ORDERED:
            copy = tl.load(order + copy, mask=live, other=0)
        shown = live[:, None] & inside[None, :]
        place = copy.to(tl.int64)[:, None] * stride + column[None, :]
        value = tl.load(z + place, mask=shown, other=0.0)
        value = tl.maximum(value * scale_ + shift_, 0.0)
        if GATED:
            entry = tl.load(rows + copy, mask=live, other=0).to(tl.int64)
            place = entry[:, None] * gate_stride + column[None, :]
            value *= tl.load(gate + place, mask=shown, other=0.0)
        total += tl.where(shown, value, 0.0)
        k += 1
    place = group.to(tl.int64)[:, None] * width + column[None, :]
    tl.store(out + place, total, mask=there[:, None] & inside[None, :])

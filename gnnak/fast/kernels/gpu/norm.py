"""Batch norm, ReLU and residual in one Triton kernel."""

import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.normed import load_columns
from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.tiles import BLOCK, columns, tiles, widened
from gnnak.fast.kernels.records import NormConstants


def norm_act(
    h: Tensor, k: NormConstants, relu: bool, residual: Tensor | None
) -> Tensor:
    """Return `residual + ReLU(scale h + shift)`, [m, c], in one pass over memory.

    If the norm uses batch statistics, padding rows of the ReLU's output are set to zero
    before the residual is added. One program computes one tile of the result.

    Args:
        h: Rows before the norm, [m, c].
        k: The batch norm's scale and shift, and the number of non-padding rows.
        relu: Whether to apply the ReLU; False = the norm's output is used directly.
        residual: Added at the end, [m, c]; None = no residual.
    """
    rows, width = h.shape
    out = h.new_empty(rows, width)
    adds, padded = residual is not None, k.of_batch and k.real is not None
    _norm_act[tiles(rows, BLOCK, width)](
        h,
        h.stride(0),
        k.scale,
        k.shift,
        h if residual is None else residual.contiguous(),
        k.real if padded else h,
        out,
        rows,
        width,
        relu,
        adds,
        padded,
        BLOCK,
        columns(width),
    )
    return out


@for_all_sizes
def _norm_act(
    h,
    stride,
    scale,
    shift,
    residual,
    real,
    out,
    rows,
    width,
    RELU: tl.constexpr,
    ADDS: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `norm_act`: one program computes one tile of the result.

    Arguments as in `norm_act`; `out` receives the result.
    """
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    shown = (row < rows)[:, None] & inside[None, :]
    from_row = row.to(tl.int64)[:, None]
    value = widened(tl.load(h + from_row * stride + column[None, :], shown, 0.0))
    value = value * load_columns(scale, column, inside)
    value += load_columns(shift, column, inside)
    if RELU:
        value = tl.maximum(value, 0.0)
    if PADDED:
        value = tl.where((row < tl.load(real).to(tl.int32))[:, None], value, 0.0)
    place = from_row * width + column[None, :]
    if ADDS:
        value += tl.load(residual + place, mask=shown, other=0.0)
    tl.store(out + place, value, mask=shown)

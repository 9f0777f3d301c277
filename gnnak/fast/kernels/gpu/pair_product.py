"""Matrix products of the states of node pairs, one per graph and channel, in Triton.

PPGN (provably powerful graph network) has a state for each pair (i, j) of nodes of one
graph; `NodePairs` explains the order of these rows. A program multiplies tiles of the
matrices of one graph, for several channels at once. Channels are adjacent in memory, so
no tensor is transposed.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.tiles import cdiv, next_power_of_2, widened
from gnnak.nn.base.ppgn import NodePairs

CHANNELS = {8: 64, 16: 16}
"""Largest number of channels in a tile, by the number of rows of the tile's matrices.
The matrices are square."""
WARPS = 4
"""Number of warps of a program."""
STAGES = tl.constexpr(4)
"""Number of iterations of a loop whose entries are in flight at the same time."""


class _Launch(NamedTuple):
    """Graphs of similar size, whose products one launch of a kernel computes."""

    start: Tensor
    """[g]: first row of each graph."""
    nodes: Tensor
    """[g]: number of nodes of each graph."""
    tiles: int
    """Number of tiles that cover the rows (and the columns) of a matrix."""
    side: int
    """Number of rows (and columns) of a tile's matrices; a key of `CHANNELS`."""


def pair_product(left: Tensor, right: Tensor, pairs: NodePairs) -> Tensor:
    """Multiply the matrices L and R of each graph and channel, [p, w].

    Args:
        left: The entries L_ij of the left matrices, [p, w].
        right: The entries R_jk of the right matrices, [p, w].
        pairs: The pairs of nodes of each graph, which index the matrices.
    """
    left, right = left.contiguous(), right.contiguous()
    out = torch.empty_like(left)
    _run(_pair_product, [left, right, out], pairs)
    return out


def pair_product_backward(
    grad: Tensor, left: Tensor, right: Tensor, pairs: NodePairs
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of `pair_product` if L and R are outputs of ReLUs.

    The gradients are those with respect to the inputs of the two ReLUs, [p, w] each.

    Args:
        grad: Gradient of the result of `pair_product`, [p, w].
        left: The left matrices, the outputs of a ReLU.
        right: The right matrices, the outputs of a ReLU.
        pairs: The pairs of nodes of each graph.
    """
    grad, left, right = (each.contiguous() for each in (grad, left, right))
    of_left, of_right = torch.empty_like(left), torch.empty_like(right)
    _run(_pair_product_backward, [grad, left, right, of_left, of_right], pairs)
    return of_left, of_right


def _run(kernel: triton.JITFunction, values: list[Tensor], pairs: NodePairs) -> None:
    """Run a kernel of this file for all graphs.

    Args:
        kernel: The kernel.
        values: Its first arguments, [p, w] each.
        pairs: The pairs of nodes of each graph.
    """
    width = values[0].size(1)
    for start, nodes, tiles, side in _launches(pairs):
        channels = min(CHANNELS[side], next_power_of_2(width))
        parts = cdiv(width, channels)
        kernel[(nodes.numel() * tiles * tiles * parts,)](
            *values,
            start,
            nodes,
            width,
            tiles,
            parts,
            side,
            channels,
            num_warps=WARPS,
        )


def _launches(pairs: NodePairs) -> Iterator[_Launch]:
    """Divide graphs into those whose matrices have the same number of tiles."""
    first = last = 0
    of_last: tuple[int, int] | None = None
    for size, count in [*pairs.sizes, (0, 0)]:
        side = 8 if size <= 8 else 16
        kind = (cdiv(size, side), side)
        if of_last is not None and kind != of_last:
            yield _Launch(pairs.start[first:last], pairs.nodes[first:last], *of_last)
            first = last
        last, of_last = last + count, kind


@triton.jit
def tile_place(start, nodes, width, tiles, parts, SIDE: tl.constexpr, C: tl.constexpr):
    """Return which tile of which matrices this program computes.

    Returns:
        The number of nodes n of the graph, the rows i and the columns k of the
        matrices, and the channels. Then the offset of the entry (0, 0) and of the
        entries (i, k) from the first element of a tensor [p, w].
    """
    program = tl.program_id(0)
    column = (program % parts) * C + tl.arange(0, C)[None, None, :]
    tile = program // parts
    i = (tile // tiles) % tiles * SIDE + tl.arange(0, SIDE)[:, None, None]
    k = tile % tiles * SIDE + tl.arange(0, SIDE)[None, :, None]
    graph = tile // (tiles * tiles)
    n = tl.load(nodes + graph).to(tl.int32)
    begin = tl.load(start + graph) * width
    return n, i, k, column, begin, begin + (i * n + k).to(tl.int64) * width + column


@triton.jit
def tile_product(
    one,
    one_row,
    one_step,
    two,
    two_column,
    two_step,
    n,
    i,
    k,
    channel,
    SIDE: tl.constexpr,
    C: tl.constexpr,
):
    """Return the sum over j of the entries (i, j) of `one` times (j, k) of `two`.

    Args:
        one: Pointers to the entries (0, 0) of the left matrices, one per channel.
        one_row: Distance of an entry (i, j) from (i + 1, j) in memory.
        one_step: Distance of an entry (i, j) from (i, j + 1).
        two: Pointers to the entries (0, 0) of the right matrices.
        two_column: Distance of an entry (j, k) from (j, k + 1).
        two_step: Distance of an entry (j, k) from (j + 1, k).
        n: Number of nodes of the graph.
        i: Rows of the product.
        k: Columns of the product.
        channel: Whether each channel exists.
        SIDE: Number of rows (and columns).
        C: Number of channels.
    """
    total = widened(tl.zeros([SIDE, SIDE, C], dtype=one.dtype.element_ty))
    one += i.to(tl.int64) * one_row
    two += k.to(tl.int64) * two_column
    in_one, in_two = (i < n) & channel, (k < n) & channel
    for _ in tl.range(0, n, num_stages=STAGES):
        left = tl.load(one, mask=in_one, other=0.0)
        right = tl.load(two, mask=in_two, other=0.0)
        total += widened(left) * widened(right)
        one += one_step
        two += two_step
    return total


@for_all_sizes
def _pair_product(
    left,
    right,
    out,
    start,
    nodes,
    width,
    tiles,
    parts,
    SIDE: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `pair_product`: compute one tile of the products of a graph.

    Arguments as in `_run`; `out` receives the products.
    """
    n, i, k, column, begin, place = tile_place(
        start, nodes, width, tiles, parts, SIDE, C
    )
    channel, row = column < width, n * width
    at = begin + column
    one, two = left + at, right + at
    total = tile_product(one, row, width, two, width, row, n, i, k, channel, SIDE, C)
    tl.store(out + place, total, mask=(i < n) & (k < n) & channel)


@for_all_sizes
def _pair_product_backward(
    grad,
    left,
    right,
    of_left,
    of_right,
    start,
    nodes,
    width,
    tiles,
    parts,
    SIDE: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `pair_product_backward`: compute one tile of both gradients.

    Arguments as in `_run`; `of_left` and `of_right` receive the gradients.
    """
    n, i, k, column, begin, place = tile_place(
        start, nodes, width, tiles, parts, SIDE, C
    )
    channel, row = column < width, n * width
    inside = (i < n) & (k < n) & channel
    at = begin + column
    back, one, two = grad + at, left + at, right + at
    # The gradient of L is grad R^T.
    total = tile_product(back, row, width, two, row, width, n, i, k, channel, SIDE, C)
    total = tl.where(tl.load(left + place, mask=inside, other=0.0) > 0, total, 0.0)
    tl.store(of_left + place, total, mask=inside)
    # The gradient of R is L^T grad.
    total = tile_product(one, width, row, back, width, row, n, i, k, channel, SIDE, C)
    total = tl.where(tl.load(right + place, mask=inside, other=0.0) > 0, total, 0.0)
    tl.store(of_right + place, total, mask=inside)

"""Products and sums over the node pairs of each graph in PPGN, in Triton."""

from collections.abc import Iterator

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.tiles import (
    GROUPS,
    cdiv,
    columns,
    for_all_sizes,
    next_power_of_2,
    sum_dtype,
    tiles,
    widened,
)
from gnnak.fast.kernels.plain.node_pairs import by_rank
from gnnak.nn.base.ppgn import NodePairs


def pool_pairs(x: Tensor, pairs: NodePairs, dtype: torch.dtype | None = None) -> Tensor:
    n, width = pairs.first.numel(), x.size(1)
    out = x.new_empty(n, 2 * width, dtype=dtype)
    _pool_pairs[tiles(n, GROUPS, width)](
        x.contiguous(), out, pairs.first, pairs.position, pairs.size, n, width, GROUPS,
        columns(width),
    )  # fmt: skip
    return out


def pool_pairs_backward(grad: Tensor, pairs: NodePairs) -> Tensor:
    n, width = pairs.first.numel(), grad.size(1) // 2
    out = grad.new_empty(pairs.num_pairs, width)
    _pool_pairs_backward[tiles(n, GROUPS, width)](
        grad.contiguous(), out, pairs.first, pairs.position, pairs.size, n, width,
        GROUPS, columns(width),
    )  # fmt: skip
    return out


@triton.jit
def node_tile(start, position, nodes, m, width, GROUPS: tl.constexpr, C: tl.constexpr):
    """Find the nodes and columns of this program's tile, and their masks.

    Also return each node's first pair, index in its graph and size of its graph.
    """
    row = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    there, inside = row < m, column < width
    begin = tl.load(start + row, mask=there, other=0)
    own = tl.load(position + row, mask=there, other=0)
    count = tl.load(nodes + row, mask=there, other=0)
    longest = tl.max(count, axis=0)
    return row, column, there, inside, begin, own, count, longest


@for_all_sizes
def _pool_pairs(
    x, out, start, position, nodes, m, width,
    GROUPS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    row, column, there, inside, begin, own, count, longest = node_tile(
        start, position, nodes, m, width, GROUPS, C
    )
    total = widened(tl.zeros([GROUPS, C], dtype=out.dtype.element_ty))
    # Iteration k adds the k-th pair of every node that has one.
    k = 0
    while k < longest:
        shown = (k < count)[:, None] & inside
        place = (begin + k)[:, None] * width + column
        total += widened(tl.load(x + place, mask=shown, other=0.0))
        k += 1
    shown = there[:, None] & inside
    diagonal = tl.load(x + (begin + own)[:, None] * width + column, mask=shown)
    place = out + row.to(tl.int64)[:, None] * (2 * width) + column
    tl.store(place, diagonal, mask=shown)
    tl.store(place + width, total - widened(diagonal), mask=shown)


@for_all_sizes
def _pool_pairs_backward(
    grad, out, start, position, nodes, m, width,
    GROUPS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    row, column, there, inside, begin, own, count, longest = node_tile(
        start, position, nodes, m, width, GROUPS, C
    )
    shown = there[:, None] & inside
    place = grad + row.to(tl.int64)[:, None] * (2 * width) + column
    of_diagonal = tl.load(place, mask=shown, other=0.0)
    of_others = tl.load(place + width, mask=shown, other=0.0)
    k = 0
    while k < longest:
        shown = (k < count)[:, None] & inside
        value = tl.where((k == own)[:, None], of_diagonal, of_others)
        tl.store(out + (begin + k)[:, None] * width + column, value, mask=shown)
        k += 1


CHANNELS = {8: 64, 16: 16}
"""Largest number of channels of a tile, for tiles of 8 x 8 and of 16 x 16 pairs."""
WARPS = 4
STAGES = tl.constexpr(4)
"""Number of loop iterations whose loads overlap (Triton's `num_stages`)."""


def pair_product(left: Tensor, right: Tensor, pairs: NodePairs) -> Tensor:
    left, right = left.contiguous(), right.contiguous()
    out = torch.empty_like(left)
    _run(_pair_product, [left, right, out], pairs)
    return out


def pair_product_backward(
    grad: Tensor, left: Tensor, right: Tensor, pairs: NodePairs
) -> tuple[Tensor, Tensor]:
    grad, left, right = (each.contiguous() for each in (grad, left, right))
    of_left, of_right = torch.empty_like(left), torch.empty_like(right)
    _run(_pair_product_backward, [grad, left, right, of_left, of_right], pairs)
    return of_left, of_right


def _run(kernel: triton.JITFunction, values: list[Tensor], pairs: NodePairs) -> None:
    """Run a kernel for all graphs; its first arguments are `values`, [p, w] each."""
    width = values[0].size(1)
    for start, nodes, count, side in _launches(pairs):
        channels = min(CHANNELS[side], next_power_of_2(width))
        parts = cdiv(width, channels)
        kernel[(nodes.numel() * count * count * parts,)](
            *values, start, nodes, width, count, parts, side, channels, num_warps=WARPS,
        )  # fmt: skip


def _launches(pairs: NodePairs) -> Iterator[tuple[Tensor, Tensor, int, int]]:
    """Group the graphs by the number and the size of the tiles of their matrices.

    Yields for each group: the first row and the number of nodes of each graph, the
    number of tiles along one side of a matrix, and the number of rows of a tile.
    """
    first = last = 0
    of_last: tuple[int, int] | None = None
    for size, count in [*pairs.sizes, (0, 0)]:
        side = 8 if size <= 8 else 16
        kind = (cdiv(size, side), side)
        if of_last is not None and kind != of_last:
            yield pairs.start[first:last], pairs.nodes[first:last], *of_last
            first = last
        last, of_last = last + count, kind


@triton.jit
def tile_place(start, nodes, width, tiles, parts, SIDE: tl.constexpr, C: tl.constexpr):
    """Find the tile of a program: the pairs (i, k) of one graph that it computes.

    Returns the graph's number of nodes, the rows i, the columns k, the channels, and
    the offsets of the pairs (0, 0) and (i, k) in the tensor of all pairs.
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
    one, one_row, one_step, two, two_column, two_step, n, i, k, channel,
    SIDE: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Return the sum over j of the entries (i, j) of `one` times (j, k) of `two`.

    `one` and `two` point to entry (0, 0). Their strides are `one_row` along i,
    `two_column` along k, and `one_step` and `two_step` along j.
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
    left, right, out, start, nodes, width, tiles, parts,
    SIDE: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
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
    grad, left, right, of_left, of_right, start, nodes, width, tiles, parts,
    SIDE: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
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


def pool_product(left: Tensor, right: Tensor, pairs: NodePairs) -> Tensor:
    n, width = pairs.first.numel(), left.size(1)
    left, right = left.contiguous(), right.contiguous()
    out = left.new_empty(n, 2 * width)
    _pool_product[tiles(n, GROUPS, width)](
        left, right, _row_sums(right, pairs), out, pairs.first, pairs.position,
        pairs.size, pairs.rank, n, width, GROUPS, columns(width),
    )  # fmt: skip
    return out


def pool_product_backward(
    grad: Tensor, left: Tensor, right: Tensor, pairs: NodePairs
) -> tuple[Tensor, Tensor]:
    n, width = pairs.first.numel(), left.size(1)
    left, right = left.contiguous(), right.contiguous()
    of_left, of_right = torch.empty_like(left), torch.empty_like(right)
    _pool_product_backward[tiles(n, GROUPS, width)](
        by_rank(grad.contiguous(), pairs), left, right, _row_sums(right, pairs),
        of_left, of_right, pairs.first, pairs.position, pairs.size, pairs.rank, n,
        width, GROUPS, columns(width),
    )  # fmt: skip
    return of_left, of_right


def _row_sums(x: Tensor, pairs: NodePairs) -> Tensor:
    """Return, in row `rank[i]`, the sum of the states of all pairs (i, j) of node i."""
    pooled = pool_pairs(x, pairs, sum_dtype(x)).unflatten(1, (2, -1))
    return by_rank(pooled.sum(dim=1), pairs)


@for_all_sizes
def _pool_product(
    left, right, sums, out, start, position, nodes, rank, m, width,
    GROUPS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Compute `pool_product` of `GROUPS` nodes; `sums` is `_row_sums(right, pairs)`."""
    row, column, there, inside, begin, own, count, longest = node_tile(
        start, position, nodes, m, width, GROUPS, C
    )
    # Entry (own, 0) of L, entry (0, own) of R, and the sum of row 0 of R.
    one = left + begin[:, None] * width + column
    two = right + (begin - own * count + own)[:, None] * width + column
    first = tl.load(rank + row, mask=there, other=0) - own
    three = sums + first[:, None] * width + column
    diagonal = widened(tl.zeros([GROUPS, C], dtype=out.dtype.element_ty))
    total = diagonal
    j = 0
    while j < longest:
        shown = (j < count)[:, None] & inside
        one_ = widened(tl.load(one + j * width, mask=shown, other=0.0))
        two_ = tl.load(two + (j * count)[:, None] * width, mask=shown, other=0.0)
        three_ = tl.load(three + j * width, mask=shown, other=0.0)
        diagonal += one_ * widened(two_)
        total += one_ * widened(three_)
        j += 1
    shown = there[:, None] & inside
    place = out + row.to(tl.int64)[:, None] * (2 * width) + column
    tl.store(place, diagonal, mask=shown)
    tl.store(place + width, total - diagonal, mask=shown)


@for_all_sizes
def _pool_product_backward(
    grad, left, right, sums, of_left, of_right, start, position, nodes, rank, m, width,
    GROUPS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Compute gradients of `left` and `right` at the pairs (i, j) of some nodes i."""
    row, column, there, inside, begin, own, count, longest = node_tile(
        start, position, nodes, m, width, GROUPS, C
    )
    across = begin[:, None] * width + column
    down = (begin - own * count + own)[:, None] * width + column
    first = tl.load(rank + row, mask=there, other=0) - own
    sums_ = sums + first[:, None] * width + column
    back = grad + first[:, None] * (2 * width) + column
    # The gradient of the sum of row i of R: over j, L_ji times the gradient of a sum.
    of_row = widened(tl.zeros([GROUPS, C], dtype=of_left.dtype.element_ty))
    j = 0
    while j < longest:
        shown = (j < count)[:, None] & inside
        of_sum = tl.load(back + j * (2 * width) + width, mask=shown, other=0.0)
        one = tl.load(left + down + (j * count)[:, None] * width, mask=shown, other=0.0)
        of_row += widened(of_sum) * widened(one)
        j += 1
    shown = there[:, None] & inside
    mine = back + own[:, None] * (2 * width)
    of_sum = widened(tl.load(mine + width, mask=shown, other=0.0))
    of_own = widened(tl.load(mine, mask=shown, other=0.0)) - of_sum
    j = 0
    while j < longest:
        shown = (j < count)[:, None] & inside
        at, turned = across + j * width, down + (j * count)[:, None] * width
        sum_ = widened(tl.load(sums_ + j * width, mask=shown, other=0.0))
        two = widened(tl.load(right + turned, mask=shown, other=0.0))
        value = of_sum * sum_ + of_own * two
        keep = tl.load(left + at, mask=shown, other=0.0) > 0
        tl.store(of_left + at, tl.where(keep, value, 0.0), mask=shown)
        other = back + j * (2 * width)
        of_other = widened(tl.load(other, mask=shown, other=0.0))
        of_other -= widened(tl.load(other + width, mask=shown, other=0.0))
        one = widened(tl.load(left + turned, mask=shown, other=0.0))
        value = of_row + of_other * one
        keep = tl.load(right + at, mask=shown, other=0.0) > 0
        tl.store(of_right + at, tl.where(keep, value, 0.0), mask=shown)
        j += 1

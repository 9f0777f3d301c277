"""Sums over the node pairs of each node, of matrix products, in Triton.

PPGN (provably powerful graph network) has a state for each pair (i, j) of nodes of one
graph; `NodePairs` explains the order of these rows. After its last matrix products,
PPGN needs only their diagonals and the sums of their rows. The kernels compute these
without the products.
"""

import torch
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.pair_pool import node_tile, pool_pairs
from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.tiles import GROUPS, columns, sum_dtype, tiles, widened
from gnnak.fast.kernels.plain.node_pairs import by_rank
from gnnak.nn.base.ppgn import NodePairs


def pool_product(left: Tensor, right: Tensor, pairs: NodePairs) -> Tensor:
    """Compute `pool_pairs` of the products of L and R, [n, 2w].

    Args:
        left: The entries L_ij of the left matrices, [p, w].
        right: The entries R_jk of the right matrices, [p, w].
        pairs: The pairs of nodes of each graph, which index the matrices.
    """
    n, width = pairs.first.numel(), left.size(1)
    left, right = left.contiguous(), right.contiguous()
    out = left.new_empty(n, 2 * width)
    _pool_product[tiles(n, GROUPS, width)](
        left,
        right,
        _row_sums(right, pairs),
        out,
        pairs.first,
        pairs.position,
        pairs.size,
        pairs.rank,
        n,
        width,
        GROUPS,
        columns(width),
    )
    return out


def pool_product_backward(
    grad: Tensor, left: Tensor, right: Tensor, pairs: NodePairs
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of `pool_product` if L and R are outputs of ReLUs.

    The gradients are those with respect to the inputs of the two ReLUs, [p, w] each.

    Args:
        grad: Gradient of the result of `pool_product`, [n, 2w].
        left: The left matrices, the outputs of a ReLU.
        right: The right matrices, the outputs of a ReLU.
        pairs: The pairs of nodes of each graph.
    """
    n, width = pairs.first.numel(), left.size(1)
    left, right = left.contiguous(), right.contiguous()
    of_left, of_right = torch.empty_like(left), torch.empty_like(right)
    _pool_product_backward[tiles(n, GROUPS, width)](
        by_rank(grad.contiguous(), pairs),
        left,
        right,
        _row_sums(right, pairs),
        of_left,
        of_right,
        pairs.first,
        pairs.position,
        pairs.size,
        pairs.rank,
        n,
        width,
        GROUPS,
        columns(width),
    )
    return of_left, of_right


def _row_sums(x: Tensor, pairs: NodePairs) -> Tensor:
    """Sum the states of the pairs (i, j) over j for each node i, sorted by `rank`."""
    pooled = pool_pairs(x, pairs, sum_dtype(x)).unflatten(1, (2, -1))
    return by_rank(pooled.sum(dim=1), pairs)


@for_all_sizes
def _pool_product(
    left,
    right,
    sums,
    out,
    start,
    position,
    nodes,
    rank,
    m,
    width,
    GROUPS: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `pool_product`: compute the results of `GROUPS` nodes.

    Args:
        left: Pointer to the left matrices.
        right: Pointer to the right matrices.
        sums: The result of `_row_sums` for the right matrices.
        out: Receives the results.
        start: The first row with a pair of each node.
        position: Index of each node within its graph.
        nodes: Number of nodes of each node's graph.
        rank: Index of each node if nodes are sorted by `start`.
        m: Number of nodes of all graphs.
        width: Width of the states.
        GROUPS: Number of nodes per tile.
        C: Number of columns per tile.
    """
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
    grad,
    left,
    right,
    sums,
    of_left,
    of_right,
    start,
    position,
    nodes,
    rank,
    m,
    width,
    GROUPS: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `pool_product_backward`: rows of both gradients.

    A program computes the rows with the pairs (i, j) of `GROUPS` nodes i. `grad` points
    to the gradients of all nodes, sorted by `rank`; `of_left` and `of_right` receive
    the results. Other arguments as in `_pool_product`.
    """
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

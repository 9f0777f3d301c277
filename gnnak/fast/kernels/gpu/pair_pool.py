"""Sums over the node pairs of each node, in Triton.

PPGN (provably powerful graph network) has a state for each pair (i, j) of nodes of one
graph; `NodePairs` explains the order of these rows.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.tiles import GROUPS, columns, tiles, widened
from gnnak.nn.base.ppgn import NodePairs


def pool_pairs(x: Tensor, pairs: NodePairs, dtype: torch.dtype | None = None) -> Tensor:
    """Compute [X_ii, sum of X_ij over j != i] for each node i, [n, 2w].

    Args:
        x: States X_ij of node pairs, [p, w].
        pairs: The pair of nodes that each row stands for.
        dtype: Data type of the result; None = that of `x`.
    """
    n, width = pairs.first.numel(), x.size(1)
    out = x.new_empty(n, 2 * width, dtype=dtype)
    nodes = (pairs.first, pairs.position, pairs.size, n)
    sizes = (width, GROUPS, columns(width))
    _pool_pairs[tiles(n, GROUPS, width)](x.contiguous(), out, *nodes, *sizes)
    return out


def pool_pairs_backward(grad: Tensor, pairs: NodePairs) -> Tensor:
    """Compute the gradient of `pool_pairs` with respect to `x`, [p, w].

    Args:
        grad: Gradient of the result of `pool_pairs`, [n, 2w].
        pairs: The pair of nodes that each row of `x` stands for.
    """
    n, width = pairs.first.numel(), grad.size(1) // 2
    out = grad.new_empty(pairs.num_pairs, width)
    nodes = (pairs.first, pairs.position, pairs.size, n)
    sizes = (width, GROUPS, columns(width))
    _pool_pairs_backward[tiles(n, GROUPS, width)](
        grad.contiguous(), out, *nodes, *sizes
    )
    return out


@triton.jit
def node_tile(start, position, nodes, m, width, GROUPS: tl.constexpr, C: tl.constexpr):
    """Return for which nodes and columns this program computes results.

    Arguments as in `_pool_pairs`.

    Returns:
        The nodes; the columns; the masks of nodes and of columns that exist. Then, for
        each node, the first row with a pair of the node, its index within its graph,
        and the number of nodes of its graph; and the largest of these numbers.
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
    x,
    out,
    start,
    position,
    nodes,
    m,
    width,
    GROUPS: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `pool_pairs`: compute the sums of `GROUPS` nodes.

    Args:
        x: Pointer to the states of node pairs.
        out: Receives the sums.
        start: The first row with a pair of each node.
        position: Index of each node within its graph.
        nodes: Number of nodes of each node's graph.
        m: Number of nodes of all graphs.
        width: Width of the states.
        GROUPS: Number of nodes per tile.
        C: Number of columns per tile.
    """
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
    grad,
    out,
    start,
    position,
    nodes,
    m,
    width,
    GROUPS: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `pool_pairs_backward`: write the gradients of `GROUPS` nodes.

    `grad` points to the gradients of the sums, and `out` receives the gradients of the
    states of node pairs. Other arguments as in `_pool_pairs`.
    """
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

"""Products and sums over the node pairs (i, j) of each graph in PPGN: the reference.

PPGN (provably powerful graph network) has a state of w channels for each of the p pairs
of nodes of one graph; `NodePairs` explains the order of the rows.
"""

import torch
from torch import Tensor

from gnnak.nn.base import ppgn
from gnnak.nn.base.ppgn import NodePairs

SMALL = 16
"""Matrices with at most this many rows are multiplied as sums of outer products."""
CHUNK = 1 << 20
"""Products are computed in chunks of about this many entries, to fit a CPU's cache."""


def pair_product(left: Tensor, right: Tensor, pairs: NodePairs) -> Tensor:
    r"""Compute $P_{ik} = \sum_j L_{ij} R_{jk}$ for each graph and channel, [p, w]."""
    return _products(pairs.split(left), pairs.split(right), left, pairs)


def pair_product_backward(
    grad: Tensor, left: Tensor, right: Tensor, pairs: NodePairs
) -> tuple[Tensor, Tensor]:
    """Return the gradients of a and b, where `left` = ReLU(a), `right` = ReLU(b)."""
    grads, lefts, rights = (pairs.split(each) for each in (grad, left, right))
    lefts, rights = ([m.transpose(1, 2) for m in each] for each in (lefts, rights))
    of_left = _products(grads, rights, left, pairs)
    of_right = _products(lefts, grads, right, pairs)
    return of_left.mul_(left > 0), of_right.mul_(right > 0)


def _products(
    left: list[Tensor], right: list[Tensor], like: Tensor, pairs: NodePairs
) -> Tensor:
    """Multiply the matrices of all graphs, grouped by size; return [p, w]."""
    out = torch.empty_like(like, memory_format=torch.contiguous_format)
    for one, two, into in zip(left, right, pairs.split(out), strict=True):
        _multiply(one, two, into)
    return out


def _multiply(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Write the products of matrices of one size, [count, size, size, w], to `out`."""
    size = left.size(1)
    if size > SMALL:
        product = left.permute(0, 3, 1, 2) @ right.permute(0, 3, 1, 2)
        out.copy_(product.permute(0, 2, 3, 1))
        return
    count = max(CHUNK // max(left[0].numel(), 1), 1)
    chunks = (each.split(count) for each in (left, right, out))
    for one, two, into in zip(*chunks, strict=True):
        torch.mul(one[:, :, 0, None], two[:, 0, None], out=into)
        for j in range(1, size):
            into.addcmul_(one[:, :, j, None], two[:, j, None])


def pool_pairs(x: Tensor, pairs: NodePairs, dtype: torch.dtype | None = None) -> Tensor:
    r"""Pool pair states to nodes $i$: $[X_{ii},\ \sum_{j \ne i} X_{ij}]$, [n, 2w]."""
    return ppgn.pool_pairs(x.to(dtype or x.dtype), pairs)


def pool_pairs_backward(grad: Tensor, pairs: NodePairs) -> Tensor:
    """Return the gradient of the pair states in `pool_pairs`, [p, w]."""
    of_diagonal, of_others = grad.chunk(2, dim=1)
    order = torch.empty_like(pairs.rank)
    order[pairs.rank] = torch.arange(order.numel(), device=order.device)
    node = order.repeat_interleave(
        pairs.size.index_select(0, order), output_size=pairs.num_pairs
    )
    out = of_others.index_select(0, node)
    return out.index_copy_(0, pairs.diagonal, of_diagonal)


def pool_product(left: Tensor, right: Tensor, pairs: NodePairs) -> Tensor:
    r"""Pool the result of `pair_product`, without computing all of it, [n, 2w].

    The product $P$ has the diagonal $P_{ii} = \sum_j L_{ij} R_{ji}$, and its rows have
    the sums $\sum_k P_{ik} = \sum_j L_{ij} r_j$ with $r_j = \sum_k R_{jk}$.
    """
    found = [left.new_empty(0, 2 * left.size(1))]
    for one, two in zip(pairs.split(left), pairs.split(right), strict=True):
        diagonal = (one * two.transpose(1, 2)).sum(dim=2)
        sums = (one * two.sum(dim=2)[:, None]).sum(dim=2)
        found.append(torch.cat([diagonal, sums - diagonal], dim=2).flatten(0, 1))
    return torch.cat(found).index_select(0, pairs.rank)


def pool_product_backward(
    grad: Tensor, left: Tensor, right: Tensor, pairs: NodePairs
) -> tuple[Tensor, Tensor]:
    """Return the gradients of a and b, where `left` = ReLU(a), `right` = ReLU(b)."""
    of_diagonal, of_sums = by_rank(grad, pairs).chunk(2, dim=1)
    of_diagonal = of_diagonal - of_sums
    of_left, of_right = (torch.empty_like(each) for each in (left, right))
    begin = 0
    for one, two, out, out_2 in zip(
        *map(pairs.split, (left, right, of_left, of_right)), strict=True
    ):
        count, size = one.shape[:2]
        rows = slice(begin, begin := begin + count * size)
        back, back_2 = (
            each[rows].view(count, size, -1) for each in (of_diagonal, of_sums)
        )
        torch.mul(back_2[:, :, None], two.sum(dim=2)[:, None], out=out)
        out.addcmul_(back[:, :, None], two.transpose(1, 2))
        torch.mul(back[:, None], one.transpose(1, 2), out=out_2)
        out_2.add_((one * back_2[:, :, None]).sum(dim=1)[:, :, None])
    return of_left.mul_(left > 0), of_right.mul_(right > 0)


def by_rank(rows: Tensor, pairs: NodePairs) -> Tensor:
    """Return `rows`, [n, c], with row i moved to position `pairs.rank[i]`."""
    return torch.empty_like(rows).index_copy_(0, pairs.rank, rows)

"""PNA*, without its inputs side by side for every edge copy."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.records import Edges, EdgeStates
from gnnak.fast.layers.norm import norm_relu_linear
from gnnak.fast.layers.parts import two_linears
from gnnak.fast.layers.rows import Recompute, Rows, kept, maker, to_save
from gnnak.nn.base.pna import PNAStarConv
from gnnak.nn.segment import lookup
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import RootedSubgraphs


def fits_pna(
    conv: PNAStarConv, e: EdgeStates | None, subgraphs: RootedSubgraphs
) -> bool:
    """Whether these are the edge states it reads, and several edge copies to norm."""
    if e is None:
        reads = conv.edge_channels == 0
    else:
        reads = 0 < conv.edge_channels == e.values.size(1)
    known = two_linears(conv.message) and two_linears(conv.update)
    return reads and known is not None and subgraphs.num_edge_copies > 1


def run_pna(
    conv: PNAStarConv, c: Rows, e: EdgeStates | None, edges: Edges, normed: bool
) -> tuple[Rows, Rows]:
    """What `conv` makes of the copies; arguments as of `FusedConv.run`."""
    message, update = two_linears(conv.message), two_linears(conv.update)
    assert message is not None
    assert update is not None
    states = None if e is None else e.rows()
    h = Rows(pair_linear(c, states, message.first.weight, edges))
    sent = norm_relu_linear(message.norm, h, message.second, normed=False)
    pooled = _PnaPool.apply(sent.values, edges.by_target)
    degree = edges.by_target.ptr.diff().clamp_(max=conv.degree.num_embeddings - 1)
    blocks = [c.values, pooled, lookup(conv.degree.weight, degree)]
    h = Rows(linear(torch.cat(blocks, dim=1), update.first.weight))
    return norm_relu_linear(update.norm, h, update.second, normed), c


def pair_linear(c: Rows, e: Tensor | None, matrix: Tensor, edges: Edges) -> Tensor:
    r"""$W [c_i, c_j, e_{ij}]$ for every edge copy $j \to i$, [f, c'].

    Args:
        c: States of the copies, [m, w].
        e: States of the edges, [e, w']; None = none.
        matrix: W, [c', 2w + w'].
        edges: The edge copies.
    """
    return _PairLinear.apply(c.values, e, matrix, edges, c.again)


class _PairLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        c: Tensor,
        e: Tensor | None,
        matrix: Tensor,
        edges: Edges,
        again: Recompute | None,
    ) -> Tensor:
        ctx.save_for_backward(e, matrix, *to_save(c, again))
        ctx.edges, ctx.make = edges, maker(again)
        of_target, of_source, of_edge = _split(matrix, c.size(1))
        return kernels_for(c).pair_sum(
            linear(c, of_target),
            linear(c, of_source),
            None if e is None else linear(e, of_edge),
            edges,
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        e, matrix, *saved = ctx.saved_tensors
        c = kept(saved, ctx.make)
        edges, sum_by = ctx.edges, kernels_for(c).sum_by
        of_target, of_source, of_edge = _split(matrix, c.size(1))
        back = sum_by(grad, edges.by_target)
        grad_c, products = back @ of_target, [back.t() @ c]
        back = sum_by(grad, edges.by_source)
        grad_c.addmm_(back, of_source)
        products.append(back.t() @ c)
        grad_e = None
        if e is not None:
            back = sum_by(grad, edges.by_edge)
            grad_e = back @ of_edge
            products.append(back.t() @ e)
        return grad_c, grad_e, torch.cat(products, dim=1), None, None


class _PnaPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, message: Tensor, groups: Groups) -> Tensor:
        pooled = kernels_for(message).pna_pool(message, groups)
        ctx.save_for_backward(message, pooled)
        ctx.groups = groups
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        message, pooled = ctx.saved_tensors
        kernels = kernels_for(message)
        return kernels.pna_pool_backward(grad, message, pooled, ctx.groups), None


def _split(matrix: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """The columns for targets, for sources, and for edges."""
    return matrix[:, :width], matrix[:, width : 2 * width], matrix[:, 2 * width :]

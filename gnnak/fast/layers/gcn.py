"""GCN, without a row for every edge copy and without edges that are put in."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear
from torch_geometric.nn import GCNConv

from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.records import Edges, EdgeStates
from gnnak.fast.layers.norm import offset_grad
from gnnak.fast.layers.rows import Recompute, Rows, kept, maker, to_save
from gnnak.subgraphs.rooted import RootedSubgraphs


def fits_gcn(conv: GCNConv, e: EdgeStates | None, subgraphs: RootedSubgraphs) -> bool:
    """Whether this is the GCN of the paper, on edges without weights."""
    return (
        e is None
        and conv.normalize
        and conv.add_self_loops
        and not conv.improved
        and conv.aggr == "add"
        and conv.flow == "source_to_target"
        and conv.lin.bias is None
    )


def run_gcn(
    conv: GCNConv, c: Rows, e: EdgeStates | None, edges: Edges, normed: bool
) -> tuple[Rows, Rows]:
    r"""What `conv` makes of the copies; arguments as of `FusedConv.run`.

    $$\frac{1}{\sqrt{d_i}} \Big(\frac{h_i}{\sqrt{d_i}} + \sum_{j \to i,\, j \neq i}
        \frac{h_j}{\sqrt{d_j}}\Big) + b \qquad h = c W^\top$$

    with $d_i$ one more than the edge copies that enter i from others. As PyG does it,
    self loops, however many, are the one that every copy has, and parallel edges count
    each for itself.
    """
    weights = (conv.lin.weight, conv.bias)
    return Rows(_Gcn.apply(c.values, *weights, edges, normed, c.again)), c


class _Gcn(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        c: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        edges: Edges,
        normed: bool,
        again: Recompute | None,
    ) -> Tensor:
        kernels, h = kernels_for(c), linear(c, matrix)
        scale = kernels.gcn_scale(h, edges)
        ctx.save_for_backward(scale, matrix, bias, *to_save(c, again))
        ctx.edges, ctx.normed, ctx.make = edges, normed, maker(again)
        return kernels.gcn_sum(h, scale, bias, edges.source, edges.by_target)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scale, matrix, bias, *saved = ctx.saved_tensors
        target, groups = ctx.edges.target, ctx.edges.by_source
        grad = grad.contiguous()
        grad_h = kernels_for(grad).gcn_sum(grad, scale, None, target, groups)
        grad_matrix = grad_h.t() @ kept(saved, ctx.make)
        grad_bias = offset_grad(grad, bias, ctx.normed)
        return grad_h @ matrix, grad_matrix, grad_bias, None, None, None

"""GCN, without a row for every edge copy and without edges that are put in."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch_geometric.nn import GCNConv

from gnnak.nn.fused.norm import Product, affine, offset_grad
from gnnak.nn.kernels import kernels_for
from gnnak.nn.kernels.records import Edges
from gnnak.subgraphs.rooted import RootedSubgraphs


def fits_gcn(
    conv: GCNConv, edge_attr: Tensor | None, subgraphs: RootedSubgraphs
) -> bool:
    """Whether this is the GCN of the paper, on edges without weights."""
    return (
        edge_attr is None
        and conv.normalize
        and conv.add_self_loops
        and not conv.improved
        and conv.aggr == "add"
        and conv.flow == "source_to_target"
        and conv.lin.bias is None
    )


def run_gcn(
    conv: GCNConv, c: Tensor, edge_attr: Tensor | None, edges: Edges, normed: bool
) -> Product:
    r"""What `conv` makes of the copies; arguments as of `FusedConv.run`.

    $$\frac{1}{\sqrt{d_i}} \Big(\frac{h_i}{\sqrt{d_i}} + \sum_{j \to i,\, j \neq i}
        \frac{h_j}{\sqrt{d_j}}\Big) + b \qquad h = c W^\top$$

    with $d_i$ one more than the edge copies that enter i from others. As PyG does it,
    self loops, however many, are the one that every copy has, and parallel edges count
    each for itself.
    """
    h = affine(c, conv.lin.weight, None)
    return Product(_GcnSum.apply(h, conv.bias, edges, normed))


class _GcnSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, bias: Tensor | None, edges: Edges, normed: bool
    ) -> Tensor:
        kernels = kernels_for(h)
        scale = kernels.gcn_scale(h, edges)
        ctx.save_for_backward(scale, bias)
        ctx.edges, ctx.normed = edges, normed
        return kernels.gcn_sum(h, scale, bias, edges.source, edges.by_target)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scale, bias = ctx.saved_tensors
        target, groups = ctx.edges.target, ctx.edges.by_source
        grad = grad.contiguous()
        grad_h = kernels_for(grad).gcn_sum(grad, scale, None, target, groups)
        return grad_h, offset_grad(grad, bias, ctx.normed), None, None

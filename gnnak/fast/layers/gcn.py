"""Fused GCN on rooted subgraphs: no messages are stored, no self loops are added."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch_geometric.nn import GCNConv

from gnnak.fast.kernels import kernels_for, kernels_of_backward
from gnnak.fast.kernels.records import Edges
from gnnak.fast.layers.norm import offset_grad
from gnnak.fast.layers.rows import (
    Recompute,
    Rows,
    recompute_function,
    saved_or_recomputed,
    to_save,
)
from gnnak.subgraphs.rooted import RootedSubgraphs


def fits_gcn(
    conv: GCNConv, e: Tensor | None, subgraphs: RootedSubgraphs | None = None
) -> bool:
    """Return whether `run_gcn` computes the same result as `conv`.

    It does if there are no edge states and `conv` has the default options.
    """
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
    conv: GCNConv, c: Rows, e: Tensor | None, edges: Edges, norm_follows: bool
) -> tuple[Rows, Rows]:
    r"""Apply a GCN conv in every rooted subgraph; see `FusedConv.run`.

    With the conv's weight $W$ and bias $b$, the output for node copy $i$ is

    $$\frac{1}{\sqrt{d_i}} \Big(\frac{h_i}{\sqrt{d_i}} + \sum_{j \to i,\, j \neq i}
        \frac{h_j}{\sqrt{d_j}}\Big) + b \qquad h = c W^\top$$

    with $d_i$ = 1 + the number of edges $j \to i$, $j \neq i$, in the subgraph. As in
    PyG, every node copy gets one self loop, self loops of the graph are ignored, and
    parallel edges are all counted.
    """
    weights = (conv.lin.weight, conv.bias)
    return Rows(_Gcn.apply(c.values, *weights, edges, norm_follows, c.recompute)), c


class _Gcn(torch.autograd.Function):
    """Autograd function of `run_gcn`, which may recompute the input states."""

    @staticmethod
    def forward(
        ctx: Any,
        c: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        edges: Edges,
        norm_follows: bool,
        recompute: Recompute | None,
    ) -> Tensor:
        kernels, h = kernels_for(c), linear(c, matrix.to(c.dtype))
        scale = kernels.gcn_scale(h, edges)
        ctx.save_for_backward(scale, matrix, bias, *to_save(c, recompute))
        ctx.edges, ctx.norm_follows = edges, norm_follows
        ctx.recompute = recompute_function(recompute)
        return kernels.gcn_sum(h, scale, bias, edges.source, edges.by_target)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scale, matrix, bias, *saved = ctx.saved_tensors
        target, groups = ctx.edges.target, ctx.edges.by_source
        grad = grad.contiguous()
        kernels = kernels_of_backward(grad)
        grad_h = kernels.gcn_sum(grad, scale, None, target, groups)
        c = saved_or_recomputed(saved, ctx.recompute)
        grad_matrix = (grad_h.t() @ c.to(grad_h.dtype)).to(matrix.dtype)
        grad_bias = offset_grad(grad, bias, ctx.norm_follows)
        grad_c = (grad_h @ matrix.to(grad_h.dtype)).to(c.dtype)
        return grad_c, grad_matrix, grad_bias, None, None, None

"""Fused base GNNs: stacks of convs that have fused implementations."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard, cast

from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GINEConv

from gnnak.fast.kernels.records import Edges
from gnnak.fast.layers.gcn import fits_gcn, run_gcn
from gnnak.fast.layers.gine import fits_gine, run_gine
from gnnak.fast.layers.lift import edges_of
from gnnak.fast.layers.norm import norm_relu_add
from gnnak.fast.layers.parts import is_fusable
from gnnak.fast.layers.pna import fits_pna, run_pna
from gnnak.fast.layers.pool import norm_add_linear
from gnnak.fast.layers.rows import Rows
from gnnak.nn.base.convs import GCN
from gnnak.nn.base.pna import PNAStarConv
from gnnak.nn.base.stack import Stack
from gnnak.nn.norm import BatchNorm
from gnnak.subgraphs.rooted import RootedSubgraphs


class FusedConv(NamedTuple):
    """The fused implementation of one class of graph convolutions."""

    fits: Callable[[Any, Tensor | None, RootedSubgraphs], bool]
    """Returns whether `run` can replace a conv, given the edge states (None if there
    are none) and the rooted subgraphs."""
    run: Callable[[Any, Rows, Tensor | None, Edges, bool], tuple[Rows, Rows]]
    """Applies the conv, given the states of node copies, [m, w], and of edges, [e, w'],
    the edge copies, and `norm_follows`.

    Returns the conv's output, [m, w], and the input states. A residual sum after the
    conv must use the returned input states, so that the conv's backward pass can add up
    all gradients of the states."""


CONVS: dict[type[nn.Module], FusedConv] = {
    GINEConv: FusedConv(fits_gine, run_gine),
    GCNConv: FusedConv(fits_gcn, run_gcn),
    GCN: FusedConv(fits_gcn, run_gcn),
    PNAStarConv: FusedConv(fits_pna, run_pna),
}
"""The fused implementation for each class of convs that has one. Subclasses of these
classes are not fused, because they may compute something else; `GCN` computes the
same as `GCNConv`."""


def can_fuse_stack(
    gnn: nn.Module, e: Tensor | None, subgraphs: RootedSubgraphs
) -> bool:
    """Return whether `run_stack` can replace a base GNN on these inputs."""
    return is_fused_stack(gnn) and all(
        CONVS[type(conv)].fits(conv, e, subgraphs) for conv in gnn.convs
    )


def is_fused_stack(gnn: nn.Module) -> TypeGuard[Stack]:
    """Return whether a base GNN is a `Stack` whose convs and norms can all be fused."""
    if type(gnn) is not Stack:
        return False
    return all(type(conv) in CONVS for conv in gnn.convs) and all(
        type(norm) is BatchNorm and is_fusable(norm) for norm in gnn.norms
    )


def run_stack(
    stack: Stack,
    c: Rows,
    e: Tensor | None,
    subgraphs: RootedSubgraphs,
    matrix: Tensor,
    offset: Tensor | None,
    norm_follows: bool,
    bias_column: bool,
) -> tuple[Rows, Tensor]:
    """Run a base GNN and a Linear after it with fused kernels.

    Args:
        stack: A `Stack` accepted by `can_fuse_stack`.
        c: Input states of the node copies, [m, w].
        e: States of the edges of the graph, [e, w'], if the convs read any.
        subgraphs: The rooted subgraphs.
        matrix: Weight of the Linear, [c', w].
        offset: Bias of the Linear, [c']; None = no bias.
        norm_follows: Whether norms with batch statistics follow the Linear.
        bias_column: Whether to append `BIAS_COLUMN` to the states of the roots.

    Returns:
        The output of the Linear, [m, c'], and the base GNN's output state of the root
        of each subgraph, [s, w] or, with `bias_column`, [s, w + 4].
    """
    *before, (conv, norm) = _parts(stack)
    edges = edges_of(subgraphs)
    c = _run_convs(before, c, e, edges, 0.0)
    h, c = CONVS[type(conv)].run(conv, c, e, edges, norm.training)
    return norm_add_linear(
        norm, h, c, matrix, offset, subgraphs, norm_follows, bias_column
    )


def run_stack_with_dropout(
    stack: Stack, c: Rows, e: Tensor | None, subgraphs: RootedSubgraphs
) -> Tensor:
    """Run a base GNN with dropout after each ReLU; return its output states, [m, w]."""
    _, dropout = stack.after
    assert isinstance(dropout, nn.Dropout)
    p = dropout.p if dropout.training else 0.0
    return _run_convs(_parts(stack), c, e, edges_of(subgraphs), p).values


def _parts(stack: Stack) -> list[tuple[nn.Module, BatchNorm]]:
    """Return each conv of a stack with the norm that follows it."""
    norms = cast("list[BatchNorm]", stack.norms)
    return list(zip(stack.convs, norms, strict=True))


def _run_convs(
    parts: list[tuple[nn.Module, BatchNorm]],
    c: Rows,
    e: Tensor | None,
    edges: Edges,
    dropout: float,
) -> Rows:
    """Run convs, each followed by a norm, ReLU, dropout and a residual sum."""
    for conv, norm in parts:
        h, c = CONVS[type(conv)].run(conv, c, e, edges, norm.training)
        c = Rows(norm_relu_add(norm, h, c.values, dropout))
    return c

"""Fused base GNNs: a `Stack` (convs in sequence) of convs with fused implementations.

A node copy is a node as it occurs in one rooted subgraph; an edge copy is an edge as it
occurs in one rooted subgraph. The centroid of a subgraph is the node copy of its root.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard, cast

from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GINEConv

from gnnak.fast.kernels.records import Edges, EdgeStates
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

    fits: Callable[[Any, EdgeStates | None, RootedSubgraphs], bool]
    """Takes a conv of the class, the edge states (None if there are none) and the
    rooted subgraphs. Returns whether `run` can replace the conv on these inputs."""
    run: Callable[[Any, Rows, EdgeStates | None, Edges, bool], tuple[Rows, Rows]]
    """Applies the conv with fused kernels.

    Arguments: the conv; the input states of the m node copies (nodes as they occur in
    one subgraph), [m, w]; the states of the e edges of the graph, [e, w'], or None; the
    edge copies (edges as they occur in one rooted subgraph); and `norm_follows`,
    whether the output goes into a norm that uses batch statistics, so that a bias
    cancels.

    Returns the conv's output, [m, w], and the input states. A residual sum after the
    conv must use the returned input states, so that the conv's backward pass can add up
    all gradients of the states."""
    reads_affine: bool = False
    """Whether `run` also accepts edge states in affine form, that is, states given as
    ReLU(slope * number + offset) with one number per edge (see `EdgeStates`)."""


CONVS: dict[type[nn.Module], FusedConv] = {
    GINEConv: FusedConv(fits_gine, run_gine, reads_affine=True),
    GCNConv: FusedConv(fits_gcn, run_gcn),
    GCN: FusedConv(fits_gcn, run_gcn),
    PNAStarConv: FusedConv(fits_pna, run_pna),
}
"""The fused implementation for each class of convs that has one. Subclasses of these
classes are not fused, because they may compute something else; `GCN` computes the
same as `GCNConv`."""


def stack_reads_affine(gnn: nn.Module) -> bool:
    """Return whether a base GNN can be fused and accepts edge states in affine form.

    In affine form, edge states are given as ReLU(slope * number + offset) with one
    number per edge.
    """
    return is_fused_stack(gnn) and all(CONVS[type(c)].reads_affine for c in gnn.convs)


def can_fuse_stack(
    gnn: nn.Module, e: EdgeStates | None, subgraphs: RootedSubgraphs
) -> bool:
    """Return whether the fused `run_stack` can replace a base GNN on these inputs.

    Args:
        gnn: The base GNN.
        e: States of the edges; None if there are no edge states.
        subgraphs: The rooted subgraphs.
    """
    return is_fused_stack(gnn) and all(
        CONVS[type(conv)].fits(conv, e, subgraphs) for conv in gnn.convs
    )


def is_fused_stack(gnn: nn.Module) -> TypeGuard[Stack]:
    """Return whether a base GNN is a `Stack` whose modules can all be fused.

    The class of each conv must be in `CONVS`, and `is_fusable` must accept each norm.
    """
    if type(gnn) is not Stack:
        return False
    return all(type(conv) in CONVS for conv in gnn.convs) and all(
        type(norm) is BatchNorm and is_fusable(norm) for norm in gnn.norms
    )


def run_stack(
    stack: nn.Module,
    c: Rows,
    e: EdgeStates | None,
    subgraphs: RootedSubgraphs,
    matrix: Tensor,
    offset: Tensor | None,
    norm_follows: bool,
    bias_column: bool,
) -> tuple[Rows, Tensor]:
    """Run a base GNN and a Linear after it with fused kernels.

    Args:
        stack: A `Stack` accepted by `can_fuse_stack`.
        c: Input states of the m node copies (nodes as they occur in one rooted
            subgraph), [m, w].
        e: States of the e edges of the graph, [e, w']; None if the convs read no edge
            states.
        subgraphs: The rooted subgraphs.
        matrix: Weight of the Linear, [c', w].
        offset: Bias of the Linear, [c']; None = no bias.
        norm_follows: Whether the output of the Linear goes into norms that use batch
            statistics: the bias then cancels, and its gradient is zero.
        bias_column: Whether to append `BIAS_COLUMN`, 4 constant columns, to the
            returned states of the roots.

    Returns:
        The output of the Linear, [m, c'], and the base GNN's output state of the root
        of each of s subgraphs, [s, w] or, with `bias_column`, [s, w + 4].
    """
    assert isinstance(stack, Stack)
    *before, (conv, norm) = _parts(stack)
    c = _run_convs(before, c, e, edges_of(subgraphs), 0.0)
    h, c = CONVS[type(conv)].run(conv, c, e, edges_of(subgraphs), norm.training)
    return norm_add_linear(
        norm, h, c, matrix, offset, subgraphs, norm_follows, bias_column
    )


def run_stack_with_dropout(
    stack: nn.Module,
    c: Rows,
    e: EdgeStates | None,
    subgraphs: RootedSubgraphs,
) -> Tensor:
    """Run a base GNN with dropout after each ReLU; return its output states, [m, w].

    The arguments are those of `run_stack`.
    """
    assert isinstance(stack, Stack)
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
    e: EdgeStates | None,
    edges: Edges,
    dropout: float,
) -> Rows:
    """Run convs, each followed by a norm, ReLU, dropout and a residual sum."""
    for conv, norm in parts:
        h, c = CONVS[type(conv)].run(conv, c, e, edges, norm.training)
        c = Rows(norm_relu_add(norm, h, c.values, dropout))
    return c

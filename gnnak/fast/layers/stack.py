"""A whole base GNN: a Stack of convs that have fused forms."""

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
from gnnak.nn.base.pna import PNAStarConv
from gnnak.nn.base.stack import Stack
from gnnak.nn.norm import BatchNorm
from gnnak.subgraphs.rooted import RootedSubgraphs


class FusedConv(NamedTuple):
    """The fused form of one kind of conv."""

    fits: Callable[[Any, EdgeStates | None, RootedSubgraphs], bool]
    """Whether a conv of the kind, with its options, has this form on such edge states
    and subgraphs."""
    run: Callable[[Any, Rows, EdgeStates | None, Edges, bool], tuple[Rows, Rows]]
    """From the conv, the copies' states [m, w], the edges' states [e, w'] and the edge
    copies to what the conv gives, [m, w], and the states once more, for what is added
    to them. The last argument says whether a norm with the statistics of these rows
    follows, so that an offset has no gradient."""
    reads_affine: bool = False
    """Whether it reads edge states that are a line as such."""


CONVS: dict[type[nn.Module], FusedConv] = {
    GINEConv: FusedConv(fits_gine, run_gine, reads_affine=True),
    GCNConv: FusedConv(fits_gcn, run_gcn),
    PNAStarConv: FusedConv(fits_pna, run_pna),
}
"""By kind; one that is derived from them may do something else."""


def stack_reads_affine(gnn: nn.Module) -> bool:
    """Whether this base GNN is fused, and reads edge states that are a line as such."""
    return is_fused_stack(gnn) and all(CONVS[type(c)].reads_affine for c in gnn.convs)


def can_fuse_stack(
    gnn: nn.Module, e: EdgeStates | None, subgraphs: RootedSubgraphs
) -> bool:
    """Whether this base GNN is a Stack that `run_stack` knows, on these inputs."""
    return is_fused_stack(gnn) and all(
        CONVS[type(conv)].fits(conv, e, subgraphs) for conv in gnn.convs
    )


def is_fused_stack(gnn: nn.Module) -> TypeGuard[Stack]:
    """Return whether this is a Stack of convs and norms that have fused forms."""
    if type(gnn) is not Stack:
        return False
    if any(isinstance(m, nn.Dropout) and m.training and m.p > 0 for m in gnn.after):
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
    normed: bool,
    ones: bool,
) -> tuple[Rows, Tensor]:
    """Products of the base GNN's states, and its states of centroids.

    Args:
        stack: A Stack that `can_fuse_stack`.
        c: States of the copies, [m, w].
        e: States of the edges, [e, w'], if the convs read some.
        subgraphs: The rooted subgraphs.
        matrix: What the states are multiplied with, [c', w].
        offset: What is added to the products, [c'].
        normed: Whether norms with the statistics of the products follow.
        ones: Whether states of centroids have `BIAS_COLUMN` behind them.

    Returns:
        Products [m, c'], and states [s, w].
    """
    assert isinstance(stack, Stack)
    edges = edges_of(subgraphs)
    *before, last = zip(stack.convs, cast("list[BatchNorm]", stack.norms), strict=True)
    for conv, norm in before:
        h, c = CONVS[type(conv)].run(conv, c, e, edges, norm.training)
        c = Rows(norm_relu_add(norm, h, c.values))
    conv, norm = last
    h, c = CONVS[type(conv)].run(conv, c, e, edges, norm.training)
    return norm_add_linear(norm, h, c, matrix, offset, subgraphs, normed, ones)

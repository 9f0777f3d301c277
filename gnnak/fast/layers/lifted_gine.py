"""GINE's sums on rooted subgraphs, from node states: a single autograd function.

A node copy is a node as it occurs in one rooted subgraph. The states of node copies are
not saved for backward but recomputed. If an embedding of the distance to the root is
added to them, kernels compute them when they read them, and no tensor holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnnak.fast.kernels import kernels_for, kernels_of_backward
from gnnak.fast.kernels.records import Edges, EdgeStates, HopLinears, Lifted
from gnnak.fast.layers.hop_tables import HopWeights
from gnnak.subgraphs.groups import Groups


class Copies(NamedTuple):
    """How the states of node copies (nodes as they occur in one subgraph) are computed.

    The state of a node copy is that of its node, combined with an embedding of the
    distance to the root.
    """

    node: Tensor
    """[m]: the node of each of the m node copies."""
    rows: Tensor
    """[m]: for each node copy, its row of the table of embeddings."""
    by_node: Groups
    """The node copies of each node."""
    add: bool
    """Whether the embedding is added to the state of the node, and not appended."""
    dtype: torch.dtype | None
    """Data type of the states; None = that of the states of nodes and embeddings."""


def lifted_gine_sum(
    x: Tensor,
    table: Tensor | None,
    e: Tensor,
    eps: Tensor,
    copies: Copies,
    edges: Edges,
) -> Tensor:
    r"""Sum GINE's messages at each of the m node copies of all rooted subgraphs.

    A node copy is a node as it occurs in one rooted subgraph. The result, [m, w], for
    node copy $i$ with state $c_i$ is

    $$(1 + \epsilon) c_i + \sum_{j \to i} \text{ReLU}(c_j + e_{ji})$$

    Args:
        x: States of the n nodes, [n, c].
        table: Embeddings of t distances to the root, [t, h]; None = the state of a node
            copy is that of its node.
        e: States of the edges of the graph, [e, w].
        eps: GINE's scalar, [1].
        copies: How states of node copies are computed from `x` and `table`.
        edges: The edges between node copies.
    """
    (summed,) = _LiftedGineSum.apply(x, table, e, eps, copies, edges, 0)
    return summed


def lifted_gine_sum_and_gates(
    x: Tensor,
    weights: HopWeights,
    e: Tensor,
    eps: Tensor,
    copies: Copies,
    edges: Edges,
) -> tuple[Tensor, list[Tensor]]:
    """Compute the tables of a layer, and `lifted_gine_sum` with the added table.

    A single autograd function takes less time than one for the tables and one for the
    sums.

    Args:
        x: States of the n nodes, [n, c].
        weights: The weights of the tables. The results of their first Linear are added
            to node states; the others are gates.
        e: States of the edges of the graph, [e, w].
        eps: GINE's scalar, [1].
        copies: How states of node copies are computed from `x` and the added table.
        edges: The edges between node copies.

    Returns:
        The sums, [m, w], and the gates of each encoding that has gates, [t, c].
    """
    (d, (matrices, biases)), given = weights, (e, eps, copies, edges)
    count = len(matrices)
    summed, *gates = _LiftedGineSum.apply(x, d, *given, count, *matrices, *biases)
    return summed, gates


class _LiftedGineSum(torch.autograd.Function):
    """Autograd function of `lifted_gine_sum` and `lifted_gine_sum_and_gates`.

    In the second case, `table` is the tensor of embeddings from which tables are
    computed with `count` matrices; `weights` are these matrices and the biases.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        table: Tensor | None,
        e: Tensor,
        eps: Tensor,
        copies: Copies,
        edges: Edges,
        count: int,
        *weights: Tensor,
    ) -> tuple[Tensor, ...]:
        kernels, added, gates = kernels_for(x), table, []
        if count:
            added, *gates = kernels.hop_tables(table, _linears(weights, count))
        c = _states(kernels, x, added, copies)
        ctx.save_for_backward(x, table, e, eps, *weights, added, *gates)
        ctx.copies, ctx.edges, ctx.counts = copies, edges, (count, len(weights))
        return kernels.messages(c, EdgeStates(e), eps, edges), *gates

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *grad_gates: Tensor) -> tuple[Any, ...]:
        x, table, e, eps, *others = ctx.saved_tensors
        (count, size), (_, rows, by_node, add, _) = ctx.counts, ctx.copies
        kernels, linears = kernels_of_backward(x), _linears(others[:size], count)
        tables, needed = others[size:], ctx.needs_input_grad
        if count and torch.is_grad_enabled():
            # To differentiate again, recompute the tables: autograd knows nothing of
            # the one that is not a result of this function.
            tables = kernels.hop_tables(table, linears)
        c = _states(kernels, x, tables[0], ctx.copies)
        given = (grad.contiguous(), c, EdgeStates(e), eps, ctx.edges, None)
        grad_c, grad_e, grad_eps = kernels.messages_backward(*given, needed[3])
        grad_x, grad_table = None, None
        of_weights: Sequence[Tensor | None] = [None] * size
        of_x, of_table = (
            (grad_c, grad_c) if add else grad_c.tensor_split([x.size(1)], 1)
        )
        if needed[0]:
            grad_x = kernels.sum_by(of_x, by_node, x.dtype)
        if needed[1] or any(needed[7:]):
            added = tables[0]
            grad_table = kernels.table_sum(of_table, rows, added.size(0), added.dtype)
            if count:
                grads = [grad_table, *(each.contiguous() for each in grad_gates)]
                grad_table, of_linears = kernels.hop_tables_backward(
                    table, linears, tables, grads
                )
                of_weights = [*of_linears.weights, *of_linears.biases]
        return grad_x, grad_table, grad_e, grad_eps, None, None, None, *of_weights


def _states(
    kernels: ModuleType, x: Tensor, table: Tensor | None, copies: Copies
) -> Tensor | Lifted:
    """Return the states of node copies, which are not stored if that is possible.

    Args:
        kernels: The package of kernels.
        x: States of the n nodes, [n, c].
        table: Embeddings of t distances to the root, [t, h]; or None.
        copies: How the states are computed from `x` and `table`.
    """
    node, rows, _, add, dtype = copies
    if table is not None and add:
        return Lifted.of(x, table, node, rows, dtype)
    return kernels.lift(x, table, node, rows, add, dtype)


def _linears(weights: Sequence[Tensor], count: int) -> HopLinears:
    """Return the Linears of tables from `count` matrices and the biases after them."""
    return HopLinears(list(weights[:count]), list(weights[count:]))

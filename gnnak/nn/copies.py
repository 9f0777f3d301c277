"""The operations on states of node copies, from which all subgraph GNNs are composed.

Some operations copy states to node copies (`lift`, `lift_subgraph`). Some read states
of other node copies (`at_centroid`, `to_nodes`, `at_root`, `at_own_centroid`). Others
pool states (`pool_subgraph`, `pool_context`) or pass messages (`inside`, `across`).
The arguments of the operations are:

- `x`: states $x_i$ of n nodes, [n, c].
- `z`: states $z_{i|j}$ of node $i$ in the subgraph rooted at $j$, for all m node
  copies, [m, c].
- `s`: states $s_j$ of the subgraphs rooted at $j$, [s, c].
- `subgraphs`: the rooted subgraphs.
- `reduce`: whether POOL is "sum" or "mean".
"""

from collections.abc import Callable
from typing import get_args

from torch import Tensor
from torch.nn import functional as F

from gnnak.backend import operation
from gnnak.nn.norm import on_copies
from gnnak.subgraphs.induce import AcrossEdges, across_edges, across_whole
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Reduce, check_choice

Messages = Callable[[Tensor, Tensor, Tensor | None, Tensor], Tensor]
"""A GNN that passes messages, such as `gnnak.nn.Conv`. Its arguments are node states,
`edge_index`, edge attributes or None, and `batch`, the index of each node's graph."""


@operation
def lift(x: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Copy the state of each node to its node copies: $z_{i|j} = x_i$, [m, c]."""
    return x.index_select(0, subgraphs.node)


@operation
def lift_edges(e: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Copy edge states [e, c] or weights [e] to edge copies: $e_{ab|j} = e_{ab}$."""
    return e.index_select(0, subgraphs.edge)


def at_centroid(z: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Return the state $z_{j|j}$ of each root $j$ in its own subgraph, [s, c]."""
    return z.index_select(0, subgraphs.centroid)


def lift_subgraph(s: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Copy the states of subgraphs to their node copies: $z_{i|j} = s_j$, [m, c]."""
    return s.index_select(0, subgraphs.subgraph)


def at_root(z: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Return, for each node copy $(i, j)$, the state $z_{j|j}$ of the root, [m, c]."""
    return lift_subgraph(at_centroid(z, subgraphs), subgraphs)


def to_nodes(s: Tensor, subgraphs: RootedSubgraphs, num_nodes: int) -> Tensor:
    """Move the state of each subgraph $j$ to its root: $x_j = s_j$, [num_nodes, c].

    A node whose subgraph SubgraphDrop dropped gets the state zero.
    """
    zeros = s.new_zeros(num_nodes, s.size(1))
    return zeros.index_copy(0, subgraphs.root, s)


def at_own_centroid(z: Tensor, subgraphs: RootedSubgraphs, num_nodes: int) -> Tensor:
    """Return, for each node copy $(i, j)$, the state $z_{i|i}$ of node $i$ as a root.

    The result, [m, c], is zero where SubgraphDrop dropped the subgraph rooted at $i$.
    """
    own = to_nodes(at_centroid(z, subgraphs), subgraphs, num_nodes)
    return lift(own, subgraphs)


@operation
def pool_subgraph(z: Tensor, subgraphs: RootedSubgraphs, reduce: Reduce) -> Tensor:
    r"""Pool the node copies of each subgraph $j$: $\text{POOL}_i\, z_{i|j}$, [s, c]."""
    return segment_reduce(z, subgraphs.subgraph, subgraphs.num_subgraphs, reduce)


@operation
def pool_context(
    z: Tensor, subgraphs: RootedSubgraphs, num_nodes: int, reduce: Reduce
) -> Tensor:
    r"""Pool node $i$ over all subgraphs $j$ with node $i$: $\text{POOL}_j\, z_{i|j}$.

    The result, [num_nodes, c], is zero for a node in no subgraph.
    """
    return segment_reduce(z, subgraphs.node, num_nodes, reduce)


@operation
def inside(
    conv: Messages, z: Tensor, subgraphs: RootedSubgraphs, edge_attr: Tensor | None
) -> Tensor:
    r"""Pass messages inside each subgraph, $z_{i'|j}$ to $z_{i|j}$, for $i' \to i$.

    `conv` runs once, on the disjoint union of all subgraphs. `edge_attr` has the
    attributes of the graph's edges, [e, c] or [e], or is None. Returns the new states
    of the node copies, [m, c].
    """
    e = None if edge_attr is None else lift_edges(edge_attr, subgraphs)
    with on_copies(subgraphs):
        return conv(z, subgraphs.edge_index, e, subgraphs.subgraph)


def across(
    conv: Messages,
    z: Tensor,
    subgraphs: RootedSubgraphs,
    edge_index: Tensor,
    edge_attr: Tensor | None,
    whole: bool = False,
) -> Tensor:
    r"""Pass messages across subgraphs, $z_{i|j'}$ to $z_{i|j}$, for $j' \to j$.

    The copies of one node $i$ exchange messages along the edges between their roots. If
    `whole`, every subgraph must be a whole graph; then, `across_whole` finds the edges
    across subgraphs, which is faster. Returns new states of the node copies, [m, c].
    """
    links = across_links(subgraphs, edge_index, whole)
    return pass_across(conv, z, subgraphs, edge_attr, links)


def across_links(
    subgraphs: RootedSubgraphs, edge_index: Tensor, whole: bool
) -> AcrossEdges:
    """Find the edges across subgraphs; arguments as in `across`."""
    return (across_whole if whole else across_edges)(subgraphs, edge_index)


@operation
def pass_across(
    conv: Messages,
    z: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | None,
    links: AcrossEdges,
) -> Tensor:
    """Pass messages between the copies of each node, along `links`; see `across`."""
    e = None if edge_attr is None else edge_attr.index_select(0, links.edge)
    with on_copies(subgraphs):
        return conv(z, links.edge_index, e, subgraphs.node)


@operation
def lookup(table: Tensor, index: Tensor) -> Tensor:
    """Return `table[index]`, [m, c], for a small table, such as embeddings of hops."""
    return table.index_select(0, index)


@operation
def embed_rows(table: Tensor, index: Tensor) -> Tensor:
    """Return `table[index]`, [..., c], for an index of any shape, [...]."""
    return F.embedding(index, table)


REDUCES: tuple[Reduce, ...] = get_args(Reduce)
"""The ways to pool rows that `segment_reduce` knows."""


def segment_reduce(values: Tensor, index: Tensor, size: int, reduce: Reduce) -> Tensor:
    """Sum or average the rows of `values`, [m, c], that have the same `index`, [m].

    The result, [size, c], is zero in rows that `index` does not contain. Half-precision
    rows are summed in float32.

    >>> import torch
    >>> rows = torch.tensor([[1.0], [2.0], [6.0]])
    >>> segment_reduce(rows, torch.tensor([0, 2, 2]), 4, "mean").flatten()
    tensor([1., 0., 4., 0.])
    """
    check_choice("reduce", reduce, REDUCES)
    wide = values.float() if values.dtype.itemsize < 4 else values
    pooled = wide.new_zeros(size, wide.size(1)).index_add(0, index, wide)
    if reduce == "mean":
        count = wide.new_zeros(size).index_add(0, index, wide.new_ones(index.numel()))
        pooled = pooled / count.clamp(min=1)[:, None]
    return pooled.to(values.dtype)

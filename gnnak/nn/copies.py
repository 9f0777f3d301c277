r"""Gather node states to copies in rooted subgraphs, and pool copies again.

A copy is node $i$ seen in the subgraph rooted at $j$; its state is $z_{i|j}$. Node
states have shape [n, c], states of copies [m, c], states of subgraphs [s, c].
"""

from torch import Tensor

from gnnak.backend import operation
from gnnak.nn.segment import segment_reduce
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Reduce


@operation
def lift(x: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    r"""Gather the state of each copy's node: $z_{i|j} = x_i$, [m, c]."""
    return x.index_select(0, subgraphs.node)


@operation
def lift_edges(e: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Gather the state, [f, c], or the weight, [f], of each edge copy's edge."""
    return e.index_select(0, subgraphs.edge)


def at_centroid(z: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    r"""Gather the state of each root in its own subgraph: $z_{j|j}$, [s, c]."""
    return z.index_select(0, subgraphs.centroid)


@operation
def pool_subgraph(z: Tensor, subgraphs: RootedSubgraphs, reduce: Reduce) -> Tensor:
    r"""Pool the copies in each subgraph $j$: $\text{POOL}_i\, z_{i|j}$, [s, c]."""
    return segment_reduce(z, subgraphs.subgraph, subgraphs.num_subgraphs, reduce)


@operation
def pool_context(
    z: Tensor, subgraphs: RootedSubgraphs, num_nodes: int, reduce: Reduce
) -> Tensor:
    r"""Pool the copies of each node $i$: $\text{POOL}_j\, z_{i|j}$, [n, c]."""
    return segment_reduce(z, subgraphs.node, num_nodes, reduce)

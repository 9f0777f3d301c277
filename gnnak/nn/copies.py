"""Operations between node states and the states of copies in rooted subgraphs.

A copy is a node seen in one rooted subgraph. Node states are [n, c], states of copies
[m, c], values of subgraphs [s, c].
"""

from torch import Tensor

from gnnak.backend import operation
from gnnak.nn.segment import segment_reduce
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Reduce


@operation
def lift(x: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    r"""Give every copy its node's state: $z_{i|j} = x_i$, [m, c]."""
    return x.index_select(0, subgraphs.node)


@operation
def lift_edges(e: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Give every edge copy the state, [f, c], or weight, [f], of its edge."""
    return e.index_select(0, subgraphs.edge)


def at_centroid(z: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    r"""Return the state of every root in its own subgraph: $z_{j|j}$, [s, c]."""
    return z.index_select(0, subgraphs.centroid)


@operation
def pool_subgraph(z: Tensor, subgraphs: RootedSubgraphs, reduce: Reduce) -> Tensor:
    r"""Pool the copies of each subgraph: $\text{POOL}_i\, z_{i|j}$, [s, c]."""
    return segment_reduce(z, subgraphs.subgraph, subgraphs.num_subgraphs, reduce)


@operation
def pool_context(
    z: Tensor, subgraphs: RootedSubgraphs, num_nodes: int, reduce: Reduce
) -> Tensor:
    r"""Pool the copies of each node: $\text{POOL}_j\, z_{i|j}$, [n, c]."""
    return segment_reduce(z, subgraphs.node, num_nodes, reduce)

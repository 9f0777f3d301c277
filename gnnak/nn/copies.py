"""Copy node and edge states to rooted subgraphs, and pool the states in subgraphs.

A node copy is node $i$ as seen in the subgraph rooted at $j$; its state is $z_{i|j}$.
An edge copy is an edge as seen in one rooted subgraph. The states of n nodes have shape
[n, c], those of m node copies [m, c], those of f edge copies [f, c] and those of s
rooted subgraphs [s, c].
"""

from torch import Tensor

from gnnak.backend import operation
from gnnak.nn.segment import segment_reduce
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Reduce


@operation
def lift(x: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Copy the state of each node to every subgraph with that node: $z_{i|j} = x_i$.

    Args:
        x: Node states, [n, c].
        subgraphs: The rooted subgraphs.

    Returns:
        States $z_{i|j}$ of node $i$ in the subgraph rooted at $j$, [m, c]: one row for
        each of the m pairs of a subgraph and a node in it.
    """
    return x.index_select(0, subgraphs.node)


@operation
def lift_edges(e: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Copy the state or weight of each edge to every subgraph with that edge.

    Args:
        e: Edge states, [e, c], or weights, [e].
        subgraphs: The rooted subgraphs.

    Returns:
        States, [f, c], or weights, [f]: one row for each of the f pairs of a subgraph
        and an edge in it.
    """
    return e.index_select(0, subgraphs.edge)


def at_centroid(z: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Return the state $z_{j|j}$ of each root $j$ in its own subgraph.

    Args:
        z: States $z_{i|j}$ of node $i$ in the subgraph rooted at $j$, [m, c]: one row
            for each of the m pairs of a subgraph and a node in it.
        subgraphs: The rooted subgraphs.

    Returns:
        One state for each of the s subgraphs, [s, c].
    """
    return z.index_select(0, subgraphs.centroid)


@operation
def pool_subgraph(z: Tensor, subgraphs: RootedSubgraphs, reduce: Reduce) -> Tensor:
    r"""Pool the states of all nodes of each subgraph $j$: $\text{POOL}_i\, z_{i|j}$.

    Args:
        z: States $z_{i|j}$ of node $i$ in the subgraph rooted at $j$, [m, c]: one row
            for each of the m pairs of a subgraph and a node in it.
        subgraphs: The rooted subgraphs.
        reduce: What POOL is, "sum" or "mean".

    Returns:
        One state for each of the s subgraphs, [s, c].
    """
    return segment_reduce(z, subgraphs.subgraph, subgraphs.num_subgraphs, reduce)


@operation
def pool_context(
    z: Tensor, subgraphs: RootedSubgraphs, num_nodes: int, reduce: Reduce
) -> Tensor:
    r"""Pool the states of node $i$ in all its subgraphs $j$: $\text{POOL}_j\, z_{i|j}$.

    Args:
        z: States $z_{i|j}$ of node $i$ in the subgraph rooted at $j$, [m, c]: one row
            for each of the m pairs of a subgraph and a node in it.
        subgraphs: The rooted subgraphs.
        num_nodes: Number of nodes, n.
        reduce: What POOL is, "sum" or "mean".

    Returns:
        One state per node, [n, c]; zero for a node in no subgraph.
    """
    return segment_reduce(z, subgraphs.node, num_nodes, reduce)

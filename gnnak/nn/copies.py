"""The operations on states of node copies, from which all subgraph GNNs are composed.

A node copy is node $i$ as it occurs in the subgraph rooted at $j$; its state is
$z_{i|j}$. An edge copy is an edge as it occurs in one rooted subgraph. The states of n
nodes have shape [n, c], those of m node copies [m, c], those of f edge copies [f, c]
and those of s rooted subgraphs [s, c].

There are operations that copy states to node copies (`lift`, `lift_subgraph`), that
read states of other node copies (`at_centroid`, `to_nodes`, `at_root`,
`at_own_centroid`), that pool states (`pool_subgraph`, `pool_context`, `pool_graph`),
and that pass messages (`inside`, `across`).
"""

from collections.abc import Callable

from torch import Tensor

from gnnak.backend import operation
from gnnak.nn.padding import on_copies
from gnnak.nn.segment import segment_reduce
from gnnak.subgraphs.across import AcrossEdges, across_edges, across_whole
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Reduce

Messages = Callable[[Tensor, Tensor, Tensor | None, Tensor], Tensor]
"""A GNN, such as `gnnak.nn.Conv`, as a function of node states, `edge_index`, edge
attributes (or None) and `batch` (the index of the graph that each node is in)."""


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
    r"""Copy the states of edges, $e_{ab|j} = e_{ab}$ for $a \to b$ in subgraph $j$.

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


def lift_subgraph(s: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Copy the state of each subgraph $j$ to all its node copies: $z_{i|j} = s_j$.

    Args:
        s: One state for each of the s subgraphs, [s, c].
        subgraphs: The rooted subgraphs.

    Returns:
        One state for each node copy (a node as it occurs in one subgraph), [m, c].
    """
    return s.index_select(0, subgraphs.subgraph)


def at_root(z: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    """Return for each node copy $(i, j)$ the state $z_{j|j}$ of its subgraph's root.

    Args:
        z: States $z_{i|j}$ of node $i$ in the subgraph rooted at $j$, [m, c].
        subgraphs: The rooted subgraphs.

    Returns:
        One state for each node copy (a node as it occurs in one subgraph), [m, c].
    """
    return lift_subgraph(at_centroid(z, subgraphs), subgraphs)


def to_nodes(s: Tensor, subgraphs: RootedSubgraphs, num_nodes: int) -> Tensor:
    """Move the state of each subgraph $j$ to its root, the node $j$: $x_j = s_j$.

    Args:
        s: One state for each of the s subgraphs, [s, c].
        subgraphs: The rooted subgraphs.
        num_nodes: Number of nodes, n.

    Returns:
        One state per node, [n, c]; zero for a node whose subgraph SubgraphDrop dropped.
    """
    zeros = s.new_zeros(num_nodes, s.size(1))
    return zeros.index_copy(0, subgraphs.root, s)


def at_own_centroid(z: Tensor, subgraphs: RootedSubgraphs, num_nodes: int) -> Tensor:
    """Return for each node copy $(i, j)$ the state $z_{i|i}$ in $i$'s own subgraph.

    Args:
        z: States $z_{i|j}$ of node $i$ in the subgraph rooted at $j$, [m, c].
        subgraphs: The rooted subgraphs.
        num_nodes: Number of nodes, n.

    Returns:
        One state for each node copy (a node as it occurs in one subgraph), [m, c]; zero
        for copies of a node whose own subgraph SubgraphDrop dropped.
    """
    own = to_nodes(at_centroid(z, subgraphs), subgraphs, num_nodes)
    return lift(own, subgraphs)


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


def pool_graph(x: Tensor, batch: Tensor, num_graphs: int, reduce: Reduce) -> Tensor:
    r"""Pool the states of all nodes of each graph $G$: $\text{POOL}_{i \in G}\, x_i$.

    Args:
        x: Node states, [n, c].
        batch: Index of the graph that each node is in, [n].
        num_graphs: Number of graphs, g.
        reduce: What POOL is, "sum" or "mean".

    Returns:
        One state per graph, [g, c]; zero for a graph without nodes.
    """
    return segment_reduce(x, batch, num_graphs, reduce)


@operation
def inside(
    conv: Messages,
    z: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | None,
) -> Tensor:
    r"""Pass messages inside each subgraph, $z_{i'|j}$ to $z_{i|j}$, for $i' \to i$.

    Args:
        conv: The GNN that computes the messages. It runs on the disjoint union of all
            subgraphs.
        z: States $z_{i|j}$ of node $i$ in the subgraph rooted at $j$, [m, c].
        subgraphs: The rooted subgraphs.
        edge_attr: Attributes of the edges of the graph, [e, c] or [e]; None if there
            are none.

    Returns:
        New states of the node copies (nodes as they occur in one subgraph), [m, c].
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

    The copies of one node $i$ exchange messages along the edges between their roots.

    Args:
        conv: The GNN that computes the messages.
        z: States $z_{i|j}$ of node $i$ in the subgraph rooted at $j$, [m, c].
        subgraphs: The rooted subgraphs.
        edge_index: Directed edges of the graph, [2, e].
        edge_attr: Attributes of the edges of the graph, [e, c] or [e]; None if there
            are none.
        whole: Whether every subgraph is the whole graph of its root; the messages are
            then found faster, by `across_whole`.

    Returns:
        New states of the node copies (nodes as they occur in one subgraph), [m, c].
    """
    find_links = across_whole if whole else across_edges
    links = find_links(subgraphs, edge_index)
    return pass_across(conv, z, subgraphs, edge_attr, links)


@operation
def pass_across(
    conv: Messages,
    z: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | None,
    links: AcrossEdges,
) -> Tensor:
    r"""Pass messages $z_{i|j'}$ to $z_{i|j}$ for given edges across subgraphs.

    Args:
        conv: The GNN that computes the messages.
        z: States of the node copies, [m, c].
        subgraphs: The rooted subgraphs.
        edge_attr: Attributes of the edges of the graph; None if there are none.
        links: The edges across subgraphs.
    """
    e = None if edge_attr is None else edge_attr.index_select(0, links.edge)
    with on_copies(subgraphs):
        return conv(z, links.edge_index, e, subgraphs.node)

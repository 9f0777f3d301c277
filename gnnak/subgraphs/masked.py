"""Rooted subgraphs with all nodes of the graph, but only some of its edges.

ESAN (Equivariant Subgraph Aggregation Networks) and the models that follow it keep all
nodes of the graph in every subgraph and remove edges. Isolated nodes then take part in
BatchNorms and means, which they do not in `EgoNets`. A node copy is a node as it occurs
in one rooted subgraph; an edge copy is an edge as it occurs in one rooted subgraph.
"""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from gnnak.subgraphs.copy_limit import check_limit
from gnnak.subgraphs.radius import WithRadius
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.whole import whole_graphs


def node_deletions(
    edge_index: Tensor,
    num_nodes: int,
    batch: Tensor | None = None,
    copy_limit: int | None = None,
) -> RootedSubgraphs:
    r"""Return, for every node $v$, its graph without the edges of $v$.

    $G_v$ has all nodes of the graph $G$ of $v$, and all edges of $G$ that do not start
    or end at $v$. The deleted node $v$ stays as an isolated node and is the root, so
    `hop` is 0 at the root and -1 elsewhere. The subgraphs are not induced.

    Args:
        edge_index: Directed edges, [2, e].
        num_nodes: Number of nodes, n.
        batch: Index of the graph that each node is in, [n], sorted; None = all nodes
            are in one graph.
        copy_limit: The largest number of node copies and edge copies together; None =
            as many as fit into free memory.

    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> subs = node_deletions(path, num_nodes=3)
    >>> subs.subgraph[subs.edge_index[0]].tolist(), subs.edge.tolist()
    ([0, 0, 2, 2], [3, 2, 1, 0])
    """
    whole = whole_graphs(edge_index, num_nodes, batch, 0, copy_limit)
    return _with_edges_between(whole, whole.hop < 0)


def masked_egonets(
    edge_index: Tensor,
    num_nodes: int,
    num_hops: int,
    batch: Tensor | None = None,
    copy_limit: int | None = None,
) -> RootedSubgraphs:
    """Return, for every node, its graph with only the edges of its k-hop egonet.

    The nodes outside of the egonet stay as isolated nodes with `hop` -1. The subgraphs
    are not induced.

    Args:
        edge_index: Directed edges, [2, e].
        num_nodes: Number of nodes, n.
        num_hops: Radius k of the egonets.
        batch: Index of the graph that each node is in, [n], sorted; None = all nodes
            are in one graph.
        copy_limit: The largest number of node copies and edge copies of the whole
            graphs together; None = as many as fit into free memory.
    """
    whole = whole_graphs(edge_index, num_nodes, batch, num_hops, copy_limit)
    return _with_edges_between(whole, whole.hop >= 0)


def _with_edges_between(subgraphs: RootedSubgraphs, inside: Tensor) -> RootedSubgraphs:
    """Remove all edges that start or end at a node copy outside of the mask, [m]."""
    source, target = subgraphs.edge_index
    kept = (inside[source] & inside[target]).nonzero().flatten()
    edge_index = subgraphs.edge_index.index_select(1, kept)
    edge = subgraphs.edge.index_select(0, kept)
    return replace(subgraphs, edge_index=edge_index, edge=edge)


@dataclass(frozen=True)
class NodeDeletion:
    """Return the graph of every node without the edges of that node.

    A callable class around `node_deletions`.

    >>> NodeDeletion()(torch.tensor([[0, 1], [1, 0]]), 2)
    RootedSubgraphs(subgraphs=2, node_copies=4, edge_copies=0, device='cpu')
    """

    copy_limit: int | None = field(default=None, kw_only=True, repr=False)
    """The largest number of node copies and edge copies of the whole graphs together;
    None = as many as fit into the free memory of the device."""

    random = False
    """Always False: the subgraphs can be cached across epochs."""
    reads_batch = True
    """Always True: the extractor must know which nodes are in one graph."""
    max_hops = 0
    """Always 0: no node has a path to the root, which has no edges."""

    def __post_init__(self) -> None:
        check_limit(self.copy_limit)

    def __call__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        generator: torch.Generator | None = None,
        batch: Tensor | None = None,
    ) -> RootedSubgraphs:
        """Return a subgraph for every node; arguments as in `WholeGraphs`."""
        return node_deletions(edge_index, num_nodes, batch, self.copy_limit)


@dataclass(frozen=True)
class MaskedEgoNets(WithRadius):
    """Return the k-hop egonet of every node, with all other nodes isolated.

    A callable class around `masked_egonets`. `EgoNets` gives the same egonets without
    the isolated nodes, and is faster.

    >>> MaskedEgoNets(0)(torch.tensor([[0, 1], [1, 0]]), 2)
    RootedSubgraphs(subgraphs=2, node_copies=4, edge_copies=0, device='cpu')
    """

    reads_batch = True
    """Always True: the extractor must know which nodes are in one graph."""

    def __call__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        generator: torch.Generator | None = None,
        batch: Tensor | None = None,
    ) -> RootedSubgraphs:
        """Return a subgraph for every node; arguments as in `WholeGraphs`."""
        given = (edge_index, num_nodes, self.num_hops, batch, self.copy_limit)
        return masked_egonets(*given)

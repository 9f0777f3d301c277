"""Whole graphs as rooted subgraphs: every node is the root of a copy of its graph."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs.adjacency import check_edge_index, check_roots, hops_to_root, incoming
from gnnak.graphs.ragged import counts_of, pointers, ragged_ranges
from gnnak.subgraphs.copy_limit import CopyLimit, Limited
from gnnak.subgraphs.egonets import WithRadius
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_count, convert_count


def whole_graphs(
    edge_index: Tensor,
    num_nodes: int,
    batch: Tensor | None = None,
    max_hops: int = 10,
    copy_limit: int | None = None,
    roots: Tensor | None = None,
) -> RootedSubgraphs:
    """Return, for every node $v$, its whole graph $G$ with $v$ as the root.

    A graph with n nodes and e edges gets n subgraphs, with $n^2$ node copies and $n e$
    edge copies in total. The subgraphs differ in `hop`, which is 0 at the root only, so
    that models can mark the root.

    Args:
        edge_index: Directed edges, [2, e].
        num_nodes: Number of nodes, n.
        batch: The graph that each node is in, [n], sorted. None if there is only one.
        max_hops: Largest distance to the root that is computed; nodes farther from the
            root, and nodes without a path to the root, have `hop` -1.
        copy_limit: Upper limit on the number of copies, as in `egonets`.
        roots: The roots of the subgraphs, as in `egonets`. If None, all nodes.

    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> subs = whole_graphs(path, num_nodes=3)
    >>> subs.node.tolist(), subs.hop.tolist()
    ([0, 1, 2, 0, 1, 2, 0, 1, 2], [0, 1, 2, 1, 0, 1, 2, 1, 0])
    """
    check_count("max_hops", max_hops)
    check_edge_index(edge_index, num_nodes)
    batch = check_batch(batch, edge_index, num_nodes)
    root = check_roots(roots, num_nodes, edge_index.device)
    nodes, edges = graph_sizes(batch, edge_index)
    of_root = batch.index_select(0, root)
    node_counts, edge_counts = nodes[of_root], edges[of_root]
    lower = "the number of nodes per batch, or extract egonets"
    limit = CopyLimit(copy_limit, edge_index.device, lower)
    limit.check(float((node_counts + edge_counts).double().sum()), "exactly")

    first_node = pointers(nodes)[of_root]
    subgraph, node = ragged_ranges(first_node, node_counts)
    first_copy = pointers(node_counts)[:-1]
    # Sorted by target, the edges of a graph are consecutive, because its nodes are.
    order = incoming(edge_index, num_nodes).edge
    of, place = ragged_ranges(pointers(edges)[of_root], edge_counts)
    edge = order.index_select(0, place)
    shift = (first_copy - first_node).index_select(0, of)
    ends = edge_index.index_select(1, edge) + shift
    centroid = first_copy + root - first_node
    hop = hops_to_root(ends, centroid, node.numel(), max_hops)
    num_edges = edge_index.size(1)
    return RootedSubgraphs(root, node, subgraph, hop, ends, edge, num_nodes, num_edges)


def graph_sizes(batch: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of nodes and the number of edges of each graph, [g] and [g]."""
    num_graphs = int(batch[-1]) + 1 if batch.numel() else 0
    edges = counts_of(batch.index_select(0, edge_index[1]), num_graphs)
    return counts_of(batch, num_graphs), edges


def check_batch(batch: Tensor | None, edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return `batch`, or zeros if it is None; raise `GraphError` if it is invalid."""
    device = edge_index.device
    if batch is None:
        return torch.zeros(num_nodes, dtype=torch.long, device=device)
    if batch.shape != (num_nodes,) or batch.dtype != torch.long:
        told = f"batch is {batch.dtype} {list(batch.shape)}; give the graph of each"
        raise GraphError(f"{told} node as an int64 tensor [{num_nodes}].")
    if (batch.diff() < 0).any() or (batch[:1] < 0).any():
        told = "batch is not sorted; number the nodes so that those of one graph follow"
        raise GraphError(f"{told} each other, as PyG's Batch does.")
    batch = batch.to(device)
    if (batch[edge_index[0]] != batch[edge_index[1]]).any():
        told = "an edge joins nodes of two graphs of the batch; give the batch that"
        raise GraphError(f"{told} belongs to edge_index, or None for one graph.")
    return batch


class OfWholeGraphs(Limited):
    """Base class of extractors that start from whole graphs."""

    random = False
    """Always False: the subgraphs can be cached across epochs."""
    reads_batch = True
    """Always True: the extractor must know which graph each node is in."""

    def __call__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        generator: torch.Generator | None = None,
        batch: Tensor | None = None,
        roots: Tensor | None = None,
    ) -> RootedSubgraphs:
        """Return a subgraph for each node, or each of `roots`; ignore `generator`."""
        options = self.max_hops, self.copy_limit, roots  # type: ignore[attr-defined]
        return self._changed(whole_graphs(edge_index, num_nodes, batch, *options))

    def _changed(self, whole: RootedSubgraphs) -> RootedSubgraphs:
        return whole


@dataclass(frozen=True)
class WholeGraphs(OfWholeGraphs):
    """Extractor whose subgraphs are whole graphs, one per root; see `whole_graphs`.

    The subgraphs of a graph differ only in their root, so use a model that marks the
    root or reads distances.

    >>> WholeGraphs()(torch.tensor([[0, 1], [1, 0]]), 2)
    RootedSubgraphs(subgraphs=2, node_copies=4, edge_copies=4, device='cpu')
    """

    max_hops: int = 10
    """Largest distance to the root that is computed; farther nodes have `hop` -1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        convert_count(self, "max_hops")


def node_deletions(
    edge_index: Tensor,
    num_nodes: int,
    batch: Tensor | None = None,
    copy_limit: int | None = None,
    roots: Tensor | None = None,
) -> RootedSubgraphs:
    """Return, for every node $v$, its graph without the edges of $v$.

    $G_v$ has all nodes of the graph $G$ of $v$, and all edges of $G$ that do not start
    or end at $v$. The deleted node $v$ stays as an isolated node and is the root, so
    `hop` is 0 at the root and -1 elsewhere. The subgraphs are not induced.

    Args:
        edge_index: Directed edges, [2, e].
        num_nodes: Number of nodes, n.
        batch: Index of the graph that each node is in, as in `whole_graphs`.
        copy_limit: Upper limit on the number of copies of the whole graphs.
        roots: The roots of the subgraphs, as in `egonets`. If None, all nodes.

    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> subs = node_deletions(path, num_nodes=3)
    >>> subs.subgraph[subs.edge_index[0]].tolist(), subs.edge.tolist()
    ([0, 0, 2, 2], [3, 2, 1, 0])
    """
    whole = whole_graphs(edge_index, num_nodes, batch, 0, copy_limit, roots)
    return _with_edges_between(whole, whole.hop < 0)


def masked_egonets(
    edge_index: Tensor,
    num_nodes: int,
    num_hops: int,
    batch: Tensor | None = None,
    copy_limit: int | None = None,
    roots: Tensor | None = None,
) -> RootedSubgraphs:
    """Return, for every node, its graph with only the edges of its k-hop egonet.

    Nodes outside of the egonet are isolated, with `hop` -1. Subgraphs are not induced.

    Args:
        edge_index: Directed edges, [2, e].
        num_nodes: Number of nodes, n.
        num_hops: Radius k of the egonets.
        batch: Index of the graph that each node is in, as in `whole_graphs`.
        copy_limit: Upper limit on the number of copies of the whole graphs.
        roots: The roots of the subgraphs, as in `egonets`. If None, all nodes.
    """
    whole = whole_graphs(edge_index, num_nodes, batch, num_hops, copy_limit, roots)
    return _with_edges_between(whole, whole.hop >= 0)


def _with_edges_between(subgraphs: RootedSubgraphs, inside: Tensor) -> RootedSubgraphs:
    """Keep only the edges between node copies for which `inside`, [m], is True."""
    source, target = subgraphs.edge_index
    kept = (inside[source] & inside[target]).nonzero().flatten()
    edge_index = subgraphs.edge_index.index_select(1, kept)
    edge = subgraphs.edge.index_select(0, kept)
    return replace(subgraphs, edge_index=edge_index, edge=edge)


@dataclass(frozen=True)
class NodeDeletion(OfWholeGraphs):
    """Extractor: the graph of each node v without the edges of v; see `node_deletions`.

    >>> NodeDeletion()(torch.tensor([[0, 1], [1, 0]]), 2)
    RootedSubgraphs(subgraphs=2, node_copies=4, edge_copies=0, device='cpu')
    """

    max_hops = 0
    """Always 0: no node has a path to the root, which has no edges."""

    def _changed(self, whole: RootedSubgraphs) -> RootedSubgraphs:
        return _with_edges_between(whole, whole.hop < 0)


@dataclass(frozen=True)
class MaskedEgoNets(OfWholeGraphs, WithRadius):
    """Extractor: egonets, with all other nodes isolated; see `masked_egonets`.

    `EgoNets` is faster, and returns the same egonets without the isolated nodes.

    >>> MaskedEgoNets(0)(torch.tensor([[0, 1], [1, 0]]), 2)
    RootedSubgraphs(subgraphs=2, node_copies=4, edge_copies=0, device='cpu')
    """

    def _changed(self, whole: RootedSubgraphs) -> RootedSubgraphs:
        return _with_edges_between(whole, whole.hop >= 0)

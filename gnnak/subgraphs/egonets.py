"""k-hop egonets of every node, for a whole batch in one call."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs.adjacency import Neighbors, check_edge_index, incoming
from gnnak.graphs.ragged import ragged_ranges
from gnnak.subgraphs.induce import find_sorted, induced_edges
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_count


def egonets(
    edge_index: Tensor, num_nodes: int, num_hops: int, roots: Tensor | None = None
) -> RootedSubgraphs:
    r"""Extract the k-hop egonet $G[\mathcal{N}_k(v)]$ of every root $v$.

    $\mathcal{N}_k(v)$ holds the nodes with a directed path *to* $v$ of at most $k$
    edges, so that whatever is in the egonet can send messages to its root; on an
    undirected graph this is the usual ball. Time and memory grow with the output, up
    to the logarithm of a sort.

    Args:
        edge_index: Directed edges, [2, e]; self loops and duplicates are fine. A batch
            of graphs is one graph with several components.
        num_nodes: Number of nodes, n.
        num_hops: Radius k; 0 gives single nodes.
        roots: The nodes to root egonets at, [s], each once; all nodes if not given.

    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> subs = egonets(path, num_nodes=3, num_hops=1)
    >>> subs.node.tolist(), subs.subgraph.tolist(), subs.hop.tolist()
    ([0, 1, 0, 1, 2, 1, 2], [0, 0, 1, 1, 1, 2, 2], [0, 1, 1, 0, 1, 1, 0])
    """
    check_count("num_hops", num_hops)
    check_edge_index(edge_index, num_nodes)
    root = _check_roots(roots, num_nodes, edge_index.device)
    neighbors = incoming(edge_index, num_nodes)
    key, hop = _reach(root, neighbors, num_hops)
    size = max(num_nodes, 1)
    subgraph, node = key // size, key % size
    ends, edge = induced_edges(node, subgraph, root.numel(), neighbors)
    num_edges = edge_index.size(1)
    return RootedSubgraphs(root, node, subgraph, hop, ends, edge, num_nodes, num_edges)


def _check_roots(roots: Tensor | None, num_nodes: int, device: torch.device) -> Tensor:
    if roots is None:
        return torch.arange(num_nodes, device=device)
    inside = roots.numel() == 0 or (roots.min() >= 0 and roots.max() < num_nodes)
    if roots.dim() != 1 or roots.dtype != torch.long or not inside:
        raise GraphError(
            f"roots must be an int64 tensor [s] of nodes in 0..{num_nodes - 1}."
        )
    if roots.unique().numel() != roots.numel():
        raise GraphError("roots names a node twice; give each node at most once.")
    return roots.to(device)


def _reach(root: Tensor, neighbors: Neighbors, num_hops: int) -> tuple[Tensor, Tensor]:
    """Breadth-first from all roots at once over keys `subgraph * n + node`.

    Returns the sorted keys of all (subgraph, node) pairs within `num_hops`, and hops.
    """
    num_nodes = neighbors.num_nodes
    frontier = torch.arange(root.numel(), device=root.device) * num_nodes + root
    levels = [frontier]
    for _ in range(num_hops):
        here = frontier % max(num_nodes, 1)
        row, entry = ragged_ranges(*neighbors.rows(here))
        beside = neighbors.node.index_select(0, entry)
        frontier = torch.unique((frontier - here).index_select(0, row) + beside)
        for level in reversed(levels):
            frontier = frontier[~find_sorted(level, frontier)[1]]
        if not frontier.numel():
            break
        levels.append(frontier)
    key, order = torch.sort(torch.cat(levels))
    sizes = torch.tensor([level.numel() for level in levels], device=root.device)
    hop = torch.arange(len(levels), device=root.device).repeat_interleave(sizes)
    return key, hop.index_select(0, order)


@dataclass(frozen=True)
class EgoNets:
    """k-hop egonets as a transform: `EgoNets(num_hops=3)(edge_index, num_nodes)`.

    >>> EgoNets(num_hops=2)(torch.tensor([[0, 1], [1, 0]]), 2)
    RootedSubgraphs(subgraphs=2, node_copies=4, edge_copies=4, device='cpu')
    """

    num_hops: int

    random = False
    """The same graph always gives the same subgraphs: they may be kept."""

    def __post_init__(self) -> None:
        check_count("num_hops", self.num_hops)

    @property
    def max_hops(self) -> int:
        """The largest hop that can come out."""
        return self.num_hops

    def __call__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        generator: torch.Generator | None = None,
    ) -> RootedSubgraphs:
        """Extract every node's egonet; `generator` is accepted and not used."""
        return egonets(edge_index, num_nodes, self.num_hops)

"""Extract the k-hop egonets of all nodes of a batch in one call."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs.adjacency import Neighbors, check_edge_index, incoming
from gnnak.subgraphs.copy_limit import CopyLimit, Limited
from gnnak.subgraphs.induce import induced_edges
from gnnak.subgraphs.reach import decoded, reach
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_count, convert_count


@dataclass(frozen=True)
class WithRadius(Limited):
    """Options of extractors whose subgraphs have a radius, such as `EgoNets`."""

    num_hops: int
    """Radius k: an egonet contains the nodes at most k hops away from its root."""

    random = False
    """Always False: the subgraphs can be cached across epochs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        convert_count(self, "num_hops")

    @property
    def max_hops(self) -> int:
        """The largest possible distance from a node of an egonet to its root."""
        return self.num_hops


def egonets(
    edge_index: Tensor,
    num_nodes: int,
    num_hops: int,
    roots: Tensor | None = None,
    copy_limit: int | None = None,
) -> RootedSubgraphs:
    r"""Extract the k-hop egonet $G[\mathcal{N}_k(v)]$ of every root $v$.

    $\mathcal{N}_k(v)$ contains the nodes with a directed path *to* $v$ of at most $k$
    edges, so every node of an egonet can send messages to its root; on an undirected
    graph this is the usual k-hop neighbourhood. Time and memory are linear in the size
    of the output, except for a logarithmic factor in time for sorting.

    Args:
        edge_index: Directed edges, [2, e]; self loops and duplicates are allowed.
            A batch of graphs is passed as one disjoint union.
        num_nodes: Number of nodes, n.
        num_hops: Radius k; with 0 each egonet is its root alone.
        roots: The nodes to extract egonets of, [s], without repeats. If None, all.
        copy_limit: Upper limit on the number of node copies plus edge copies. If there
            would be more, `SizeError` is raised before they are allocated. If None, as
            many are allowed as fit into free memory.

    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> subs = egonets(path, num_nodes=3, num_hops=1)
    >>> subs.node.tolist(), subs.subgraph.tolist(), subs.hop.tolist()
    ([0, 1, 0, 1, 2, 1, 2], [0, 0, 1, 1, 1, 2, 2], [0, 1, 1, 0, 1, 1, 0])
    """
    check_count("num_hops", num_hops)
    check_edge_index(edge_index, num_nodes)
    root = _check_roots(roots, num_nodes, edge_index.device)
    limit = CopyLimit(copy_limit, edge_index.device)
    neighbors = incoming(edge_index, num_nodes)
    all_roots = roots is None
    key, hop = reach(root, neighbors, num_hops, limit, all_roots)
    subgraph, node = decoded(key, max(num_nodes, 1))
    ends, edge = induced_edges(node, subgraph, root.numel(), neighbors, limit)
    num_edges = edge_index.size(1)
    found = RootedSubgraphs(root, node, subgraph, hop, ends, edge, num_nodes, num_edges)
    # Set what is known here or easily found, so that layers need not compute it.
    found.assume(hop_range=(0, num_hops))
    if all_roots:
        step = num_nodes + 1
        root_key = torch.arange(0, num_nodes * step, step, device=key.device)
        found.assume(in_order=True, centroid=torch.searchsorted(key, root_key))
    return found


def _check_roots(roots: Tensor | None, num_nodes: int, device: torch.device) -> Tensor:
    if roots is None:
        return torch.arange(num_nodes, device=device)
    flat = isinstance(roots, Tensor) and roots.dim() == 1 and roots.dtype == torch.long
    inside = flat and not ((roots < 0) | (roots >= num_nodes)).any()
    if not inside:
        raise GraphError(
            f"roots must be an int64 tensor [s] of nodes in 0..{num_nodes - 1}."
        )
    if roots.unique().numel() != roots.numel():
        raise GraphError("roots contains a node twice; give each node at most once.")
    return roots.to(device)


@dataclass(frozen=True)
class EgoNets(WithRadius):
    """Extract the k-hop egonet of every node; a callable class around `egonets`.

    >>> EgoNets(num_hops=2)(torch.tensor([[0, 1], [1, 0]]), 2)
    RootedSubgraphs(subgraphs=2, node_copies=4, edge_copies=4, device='cpu')
    """

    def __call__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        generator: torch.Generator | None = None,
    ) -> RootedSubgraphs:
        """Extract the egonet of every node; `generator` is ignored.

        Other arguments as in `egonets`. All extractors have these three arguments.
        """
        return egonets(edge_index, num_nodes, self.num_hops, copy_limit=self.copy_limit)

    def without_edges(self, neighbors: Neighbors) -> RootedSubgraphs:
        """Extract egonets without edges; `with_edges` adds the edges after sampling."""
        root = torch.arange(neighbors.num_nodes, device=neighbors.node.device)
        limit = CopyLimit(self.copy_limit, root.device)
        key, hop = reach(root, neighbors, self.num_hops, limit, all_roots=True)
        size, num_edges = neighbors.num_nodes, neighbors.edge.numel()
        subgraph, node = decoded(key, max(size, 1))
        ends, edge = root.new_empty(2, 0), root.new_empty(0)
        return RootedSubgraphs(root, node, subgraph, hop, ends, edge, size, num_edges)

"""Extract the k-hop egonets of all nodes of a batch in one call."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.graphs.adjacency import Neighbors, check_edge_index, check_roots, incoming
from gnnak.subgraphs.advice import check_egonets
from gnnak.subgraphs.capped import capped_egonets, capped_egonets_of
from gnnak.subgraphs.copy_limit import CopyLimit, Limited
from gnnak.subgraphs.reach import egonets_of
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_count, convert_count


@dataclass(frozen=True)
class WithRadius(Limited):
    """Options of extractors whose subgraphs have a radius, such as `EgoNets`."""

    num_hops: int
    """Radius k: an egonet contains the nodes at most k hops away from its root."""

    random = False
    """Whether two calls can return different subgraphs, which are then not cached."""

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
        roots: The nodes to extract egonets of: an int64 tensor [s] in any order, each
            node at most once, or a bool mask [n]. If None, all nodes.
        copy_limit: Upper limit on the number of node copies plus edge copies. If there
            would be more, `SizeError` is raised. If None, as many are allowed as fit
            into free memory.

    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> subs = egonets(path, num_nodes=3, num_hops=1)
    >>> subs.node.tolist(), subs.subgraph.tolist(), subs.hop.tolist()
    ([0, 1, 0, 1, 2, 1, 2], [0, 0, 1, 1, 1, 2, 2], [0, 1, 1, 0, 1, 1, 0])
    """
    check_count("num_hops", num_hops)
    check_edge_index(edge_index, num_nodes)
    root = check_roots(roots, num_nodes, edge_index.device)
    neighbors = incoming(edge_index, num_nodes)
    limit = CopyLimit(copy_limit, root.device)
    if roots is None:
        check_egonets(neighbors, num_hops, limit)
    return egonets_of(root, neighbors, num_hops, limit, roots is None)


@dataclass(frozen=True, repr=False)
class EgoNets(WithRadius):
    """Extract the k-hop egonet of every node, or a sample of each egonet's nodes.

    This is a callable class around `egonets` and, with `max_neighbors`,
    `capped_egonets`.

    >>> EgoNets(num_hops=2)(torch.tensor([[0, 1], [1, 0]]), 2)
    RootedSubgraphs(subgraphs=2, node_copies=4, edge_copies=4, device='cpu')
    >>> EgoNets(2, max_neighbors=20)
    EgoNets(num_hops=2, max_neighbors=20)
    """

    max_neighbors: int | None = None
    """At most this many nodes are sampled per hop (see `capped_egonets`), so an egonet
    has at most `1 + num_hops * max_neighbors` nodes. If None, egonets have all nodes.
    """
    seed: int | None = 0
    """Seed of the sample. With a seed, all calls return the same sample. If None, each
    training step has a new sample, and evaluation a fixed one. Ignored without
    `max_neighbors`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_neighbors is not None:
            convert_count(self, "max_neighbors", least=1)
        if self.seed is not None:
            convert_count(self, "seed")

    def __repr__(self) -> str:
        # Without options at their default, as in states of loaders of older versions.
        shown = f"num_hops={self.num_hops}"
        if self.max_neighbors is not None:
            shown += f", max_neighbors={self.max_neighbors}"
            shown += f", seed={self.seed}" if self.seed != 0 else ""
        return f"EgoNets({shown})"

    @property
    def random(self) -> bool:  # type: ignore[override]
        """Whether two calls can return different subgraphs."""
        return self.max_neighbors is not None and self.seed is None

    def __call__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        generator: torch.Generator | None = None,
        roots: Tensor | None = None,
    ) -> RootedSubgraphs:
        """Extract the egonet of every node, or of `roots`.

        `generator` is only used if `random` is True. The other arguments are those of
        `egonets`.
        """
        k, m, limit = self.num_hops, self.max_neighbors, self.copy_limit
        if m is None:
            return egonets(edge_index, num_nodes, k, roots, limit)
        seed = self.seed
        if seed is None:
            device = "cpu" if generator is None else generator.device
            seed = int(torch.randint(2**62, (), generator=generator, device=device))
        return capped_egonets(edge_index, num_nodes, k, m, roots, seed, limit)

    def of_roots(self, neighbors: Neighbors, roots: Tensor) -> RootedSubgraphs:
        """Extract the egonets of some roots, [s], given the neighbours of all nodes."""
        k, m, limit = self.num_hops, self.max_neighbors, self.copy_limit
        if m is None:
            return egonets_of(roots, neighbors, k, CopyLimit(limit, roots.device))
        return capped_egonets_of(roots, neighbors, k, m, self.seed or 0, limit)

    def without_edges(self, neighbors: Neighbors) -> RootedSubgraphs:
        """Extract egonets without edges; SubgraphDrop adds edges after sampling."""
        root = torch.arange(neighbors.num_nodes, device=neighbors.node.device)
        limit = CopyLimit(self.copy_limit, root.device)
        return egonets_of(root, neighbors, self.num_hops, limit, True, edges=False)

"""Random-walk subgraphs: the nodes that a few node2vec walks from a root visit."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from gnnak.graphs.adjacency import check_edge_index, incoming
from gnnak.subgraphs.copy_limit import CopyLimit, check_limit
from gnnak.subgraphs.distances import hops_to_root
from gnnak.subgraphs.induce import find_sorted, induced_edges
from gnnak.subgraphs.node2vec import check_bias, random_walks
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_count, convert_count


def walk_subgraphs(
    edge_index: Tensor,
    num_nodes: int,
    length: int,
    repeats: int,
    p: float = 1.0,
    q: float = 1.0,
    max_hops: int = 10,
    generator: torch.Generator | None = None,
    copy_limit: int | None = None,
) -> RootedSubgraphs:
    """Sample random walks from every node, and return the subgraphs they induce.

    The subgraph of a root has all nodes that the walks from the root visit, and all
    edges between these nodes. In the result, `hop` is the distance to the root inside
    the subgraph: this is the distance that messages travel, and it is cheap to compute.
    The code published with the GNN-AK paper uses the distance in the whole graph.

    Args:
        edge_index: Directed edges, [2, e].
        num_nodes: Number of nodes, n.
        length: Number of steps of a walk.
        repeats: Number of walks from each root.
        p: node2vec's return parameter; see `random_walks`.
        q: node2vec's in-out parameter; see `random_walks`.
        max_hops: Largest distance to the root that is computed; nodes farther from the
            root have `hop` -1.
        generator: Random number generator, on the device of `edge_index`; None =
            PyTorch's default generator.
        copy_limit: The largest number of node copies and edge copies together (nodes
            and edges, counted in each subgraph), and the largest number of steps of all
            walks together; None = as many as fit into free memory.

    Raises:
        SizeError: If there are more steps or copies than `copy_limit`.
    """
    check_count("length", length)
    check_count("repeats", repeats, least=1)
    check_count("max_hops", max_hops)
    check_bias(p, q)
    check_edge_index(edge_index, num_nodes)
    lower = "length, repeats or the number of nodes per batch"
    limit = CopyLimit(copy_limit, edge_index.device, lower)
    limit.check(num_nodes * repeats * length, "up to", "node copies")
    root = torch.arange(num_nodes, device=edge_index.device)
    start = root.repeat_interleave(repeats)
    visited = random_walks(edge_index, num_nodes, start, length, p, q, generator)
    size = max(num_nodes, 1)
    key = torch.unique(start[:, None] * size + visited)
    subgraph, node = key // size, key % size
    neighbors = incoming(edge_index, num_nodes)
    ends, edge = induced_edges(node, subgraph, num_nodes, neighbors, limit)
    centroid = find_sorted(key, root * (size + 1))[0]
    hop = hops_to_root(ends, centroid, node.numel(), max_hops)
    num_edges = edge_index.size(1)
    return RootedSubgraphs(root, node, subgraph, hop, ends, edge, num_nodes, num_edges)


@dataclass(frozen=True)
class RandomWalks:
    """Callable object that samples random-walk subgraphs with `walk_subgraphs`.

    >>> walks = RandomWalks(length=2, repeats=3)
    >>> walks
    RandomWalks(length=2, repeats=3, p=1.0, q=1.0, max_hops=10)
    >>> triangle = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    >>> walks(triangle, 3, torch.Generator().manual_seed(0)).num_subgraphs
    3
    """

    length: int = 10
    """Number of steps of a walk."""
    repeats: int = 5
    """Number of walks from each root."""
    p: float = 1.0
    """node2vec's return parameter; with a large value, a walk rarely steps back."""
    q: float = 1.0
    """node2vec's in-out parameter; with a large value, a walk stays near the previous
    node."""
    max_hops: int = 10
    """Largest distance to the root that is computed; nodes farther from the root have
    `hop` -1."""
    copy_limit: int | None = field(default=None, kw_only=True, repr=False)
    """The largest number of node copies and edge copies together (nodes and edges,
    counted in each subgraph), and of steps of all walks together. A call that would
    need more raises `SizeError`. None = as many as fit into the free memory of the
    device."""

    random = True
    """Always True: every call samples new subgraphs. Random subgraphs are not cached
    across epochs."""

    def __post_init__(self) -> None:
        convert_count(self, "length")
        convert_count(self, "repeats", least=1)
        convert_count(self, "max_hops")
        check_bias(self.p, self.q)
        check_limit(self.copy_limit)

    def __call__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        generator: torch.Generator | None = None,
    ) -> RootedSubgraphs:
        """Sample a random-walk subgraph for every node.

        Args:
            edge_index: Directed edges, [2, e].
            num_nodes: Number of nodes, n.
            generator: Random number generator, on the device of `edge_index`; None =
                PyTorch's default generator.
        """
        return walk_subgraphs(
            edge_index,
            num_nodes,
            self.length,
            self.repeats,
            self.p,
            self.q,
            self.max_hops,
            generator,
            self.copy_limit,
        )

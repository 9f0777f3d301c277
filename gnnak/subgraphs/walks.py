"""Random-walk subgraphs: the union of a few node2vec walks from every root."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.errors import OptionError
from gnnak.graphs.adjacency import Neighbors, check_edge_index, incoming
from gnnak.graphs.ragged import chunk_cuts, pointers, ragged_ranges
from gnnak.subgraphs.distances import hops_to_root
from gnnak.subgraphs.induce import CHUNK, find_sorted, induced_edges
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_count


def random_walks(
    edge_index: Tensor,
    num_nodes: int,
    start: Tensor,
    length: int,
    p: float = 1.0,
    q: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Walk `length` steps from every start, all walkers at once (node2vec).

    A walker at $v$ that came from $t$ goes to neighbour $x$ with probability
    proportional to $1/p$ if $x = t$, to $1$ if $x$ is a neighbour of $t$, and to
    $1/q$ otherwise; the first step is uniform. The draw is exact (no rejection, so no
    unbounded loop). On directed graphs walkers go *against* the edges, so that every
    visited node has a path to the start; a duplicate edge counts twice; a walker with
    nowhere to go stays.

    Args:
        edge_index: Directed edges, [2, e].
        num_nodes: Number of nodes, n.
        start: Where each walker starts, [w].
        length: Number of steps.
        p: Return parameter: large = seldom back to where it came from.
        q: In-out parameter: large = stays near where it came from.
        generator: Source of randomness, on the device of `edge_index`.

    Returns:
        The nodes visited, the start first, [w, length + 1].
    """
    neighbors = incoming(edge_index, num_nodes)
    visited = [start]
    for _ in range(length):
        here = visited[-1]
        chance = torch.rand(
            here.shape, dtype=torch.double, device=here.device, generator=generator
        )
        if len(visited) == 1 or p == q == 1:
            there = _uniform_step(here, chance, neighbors)
        else:
            there = _biased_step(here, visited[-2], chance, neighbors, p, q)
        visited.append(there)
    return torch.stack(visited, dim=1)


def _uniform_step(here: Tensor, chance: Tensor, neighbors: Neighbors) -> Tensor:
    start, degree = neighbors.rows(here)
    drawn = torch.minimum((chance * degree).long(), degree - 1)
    return _go(here, start + drawn, degree, neighbors)


def _biased_step(
    here: Tensor,
    before: Tensor,
    chance: Tensor,
    neighbors: Neighbors,
    p: float,
    q: float,
) -> Tensor:
    cuts = chunk_cuts(neighbors.rows(here)[1], CHUNK)
    walkers = zip(
        torch.tensor_split(here, cuts),
        torch.tensor_split(before, cuts),
        torch.tensor_split(chance, cuts),
        strict=True,
    )
    return torch.cat([_biased_draw(h, b, c, neighbors, p, q) for h, b, c in walkers])


def _biased_draw(
    here: Tensor,
    before: Tensor,
    chance: Tensor,
    neighbors: Neighbors,
    p: float,
    q: float,
) -> Tensor:
    start, degree = neighbors.rows(here)
    walker, entry = ragged_ranges(start, degree)
    there = neighbors.node.index_select(0, entry)
    came_from = before.index_select(0, walker)
    near = find_sorted(neighbors.key, came_from * neighbors.num_nodes + there)[1]
    weight = torch.full_like(there, 1 / q, dtype=torch.double)
    weight[near] = 1.0
    weight[there == came_from] = 1 / p
    # Walker i owns the stretch ptr[i]:ptr[i+1] of the running sum of weights; a
    # uniform point of that stretch falls on an entry with the wanted probability.
    running = torch.cat([weight.new_zeros(1), torch.cumsum(weight, 0)])
    ptr = pointers(degree)
    low, high = running[ptr[:-1]], running[ptr[1:]]
    drawn = torch.searchsorted(running, low + chance * (high - low), right=True) - 1
    drawn = torch.minimum(torch.maximum(drawn, ptr[:-1]), ptr[1:] - 1)
    return _go(here, start + drawn - ptr[:-1], degree, neighbors)


def _go(here: Tensor, entry: Tensor, degree: Tensor, neighbors: Neighbors) -> Tensor:
    """The node at `entry`, or `here` for walkers with nowhere to go."""
    if not neighbors.node.numel():
        return here
    stuck = degree == 0
    there = neighbors.node.index_select(0, entry.masked_fill(stuck, 0))
    return torch.where(stuck, here, there)


def walk_subgraphs(
    edge_index: Tensor,
    num_nodes: int,
    length: int,
    repeats: int,
    p: float = 1.0,
    q: float = 1.0,
    max_hops: int = 10,
    generator: torch.Generator | None = None,
) -> RootedSubgraphs:
    """Root at every node the subgraph induced by what `repeats` walks visit.

    Difference from the published code: `hop` is the distance inside the subgraph, not
    in the whole graph. It is what messages inside the subgraph see, and its cost
    follows the size of the subgraphs, not of the graph around them.

    Args:
        edge_index: Directed edges, [2, e].
        num_nodes: Number of nodes, n.
        length: Steps of one walk.
        repeats: Walks from each root.
        p: Return parameter of `random_walks`.
        q: In-out parameter of `random_walks`.
        max_hops: Bound of `hop`; copies farther away get -1.
        generator: Source of randomness, on the device of `edge_index`.
    """
    check_count("length", length)
    check_count("repeats", repeats, least=1)
    check_count("max_hops", max_hops)
    _check_bias("p", p)
    _check_bias("q", q)
    check_edge_index(edge_index, num_nodes)
    root = torch.arange(num_nodes, device=edge_index.device)
    start = root.repeat_interleave(repeats)
    visited = random_walks(edge_index, num_nodes, start, length, p, q, generator)
    size = max(num_nodes, 1)
    key = torch.unique(start[:, None] * size + visited)
    subgraph, node = key // size, key % size
    ends, edge = induced_edges(
        node, subgraph, num_nodes, incoming(edge_index, num_nodes)
    )
    centroid = find_sorted(key, root * (size + 1))[0]
    hop = hops_to_root(ends, centroid, node.numel(), max_hops)
    num_edges = edge_index.size(1)
    return RootedSubgraphs(root, node, subgraph, hop, ends, edge, num_nodes, num_edges)


def _check_bias(option: str, value: float) -> None:
    if not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise OptionError(f"{option} is {value!r}; give a positive number.")


@dataclass(frozen=True)
class RandomWalks:
    """Random-walk subgraphs as a transform, drawn anew at every call.

    >>> walks = RandomWalks(length=2, repeats=3)
    >>> walks
    RandomWalks(length=2, repeats=3, p=1.0, q=1.0, max_hops=10)
    >>> triangle = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    >>> walks(triangle, 3, torch.Generator().manual_seed(0)).num_subgraphs
    3
    """

    length: int = 10
    repeats: int = 5
    p: float = 1.0
    q: float = 1.0
    max_hops: int = 10

    random = True
    """Every call draws other subgraphs: they are not to be kept across epochs."""

    def __post_init__(self) -> None:
        check_count("length", self.length)
        check_count("repeats", self.repeats, least=1)
        check_count("max_hops", self.max_hops)
        _check_bias("p", self.p)
        _check_bias("q", self.q)

    def __call__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        generator: torch.Generator | None = None,
    ) -> RootedSubgraphs:
        """Draw the subgraphs of every node from `generator`."""
        return walk_subgraphs(
            edge_index,
            num_nodes,
            self.length,
            self.repeats,
            self.p,
            self.q,
            self.max_hops,
            generator,
        )

"""Random-walk subgraphs: the nodes that a few node2vec walks from a root visit."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.errors import GraphError, OptionError
from gnnak.graphs.adjacency import Neighbors, check_edge_index, check_roots, incoming
from gnnak.graphs.ragged import chunk_cuts, distinct, pointers, ragged_ranges
from gnnak.subgraphs.copy_limit import CopyLimit, Limited
from gnnak.subgraphs.induce import CHUNK, find_sorted, induced_subgraphs
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_count, convert_count

HIGH_DEGREE = 64
"""A walker at a node with more neighbours than this uses rejection sampling."""
MAX_TRIALS = 64
"""After this many rejected proposals, a step computes all neighbours' probabilities."""


class Bias(NamedTuple):
    """Transition weights of node2vec walks with parameters p, q; see `random_walks`."""

    neighbors: Neighbors
    p: float
    q: float

    def weight(self, before: Tensor, there: Tensor) -> Tensor:
        pair = before * self.neighbors.num_nodes + there
        near = find_sorted(self.neighbors.key, pair)[1]
        weight = torch.full_like(there, 1 / self.q, dtype=torch.double)
        weight = weight.masked_fill(near, 1.0)
        return weight.masked_fill(there == before, 1 / self.p)


def check_bias(p: float, q: float) -> None:
    for option, value in (("p", p), ("q", q)):
        if not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise OptionError(f"{option} is {value!r}; give a positive number.")


def random_walks(
    edge_index: Tensor,
    num_nodes: int,
    start: Tensor,
    length: int,
    p: float = 1.0,
    q: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Sample node2vec random walks of `length` steps from every start node.

    A walker at $v$ that came from $t$ goes to neighbour $x$ with probability
    proportional to $1/p$ if $x = t$, to $1$ if $x$ is a neighbour of $t$, and to
    $1/q$ otherwise; the first step is uniform. Sampling is exact: a step from a node of
    low degree samples from the weights of all neighbours, a step from a node of high
    degree uses rejection sampling. Walkers follow directed edges *backwards*, so every
    visited node has a path to the start node. Duplicate edges count separately, and a
    walker at a node without incoming edges stays there.

    Args:
        edge_index: Directed edges, [2, e].
        num_nodes: Number of nodes, n.
        start: The start node of each of the w walkers, [w].
        length: Number of steps of each walker.
        p: Return parameter; a large value makes stepping back unlikely.
        q: In-out parameter; a large value keeps the walk near the previous node.
        generator: Random number generator, on the device of `edge_index`.

    Returns:
        The visited nodes of each walker, the start node first, [w, length + 1].
    """
    check_bias(p, q)
    check_count("length", length)
    check_edge_index(edge_index, num_nodes)
    if start.numel() and (start.min() < 0 or start.max() >= num_nodes):
        raise GraphError(f"start must contain nodes in 0..{num_nodes - 1} only.")
    neighbors = incoming(edge_index, num_nodes)
    bias = Bias(neighbors, p, q)
    visited = [start]
    for _ in range(length):
        here = visited[-1]
        uniform = torch.rand(
            here.shape, dtype=torch.double, device=here.device, generator=generator
        )
        if len(visited) == 1 or p == q == 1:
            there = _uniform_step(here, uniform, neighbors)
        else:
            there = _biased_step(here, visited[-2], uniform, bias, generator)
        visited.append(there)
    return torch.stack(visited, dim=1)


def _uniform_step(here: Tensor, uniform: Tensor, neighbors: Neighbors) -> Tensor:
    start, degree = neighbors.rows(here)
    choice = torch.minimum((uniform * degree).long(), degree - 1)
    return _step_to(here, start + choice, degree, neighbors)


def _biased_step(
    here: Tensor,
    before: Tensor,
    uniform: Tensor,
    bias: Bias,
    generator: torch.Generator | None,
) -> Tensor:
    there = here.clone()
    every = torch.arange(here.numel(), device=here.device)
    high_degree = bias.neighbors.rows(here)[1] > HIGH_DEGREE
    pending = every[high_degree]
    for _ in range(MAX_TRIALS):
        if not pending.numel():
            break
        proposed, accepted = _propose(here[pending], before[pending], bias, generator)
        there[pending[accepted]] = proposed[accepted]
        pending = pending[~accepted]
    rest = torch.cat([every[~high_degree], pending])
    cuts = chunk_cuts(bias.neighbors.rows(here[rest])[1], CHUNK)
    for part in torch.tensor_split(rest, cuts):
        there[part] = _weighted_step(here[part], before[part], uniform[part], bias)
    return there


def _propose(
    here: Tensor, before: Tensor, bias: Bias, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Propose a next node for each walker; also return whether it is accepted."""
    shape, device = (2, here.numel()), here.device
    uniform = torch.rand(shape, dtype=torch.double, device=device, generator=generator)
    proposed = _uniform_step(here, uniform[0], bias.neighbors)
    largest = max(1 / bias.p, 1.0, 1 / bias.q)  # of all weights
    return proposed, uniform[1] * largest < bias.weight(before, proposed)


def _weighted_step(here: Tensor, before: Tensor, uniform: Tensor, bias: Bias) -> Tensor:
    neighbors = bias.neighbors
    start, degree = neighbors.rows(here)
    walker, entry = ragged_ranges(start, degree)
    there = neighbors.node.index_select(0, entry)
    weight = bias.weight(before.index_select(0, walker), there)
    # Entries ptr[i]:ptr[i+1] of the cumulative sum belong to walker i. A uniform point
    # between the first and the last of them selects a neighbour by its weight.
    running = torch.cat([weight.new_zeros(1), torch.cumsum(weight, 0)])
    ptr = pointers(degree)
    low, high = running[ptr[:-1]], running[ptr[1:]]
    point = low + uniform * (high - low)
    choice = torch.searchsorted(running, point, right=True) - 1
    choice = torch.minimum(torch.maximum(choice, ptr[:-1]), ptr[1:] - 1)
    return _step_to(here, start + choice - ptr[:-1], degree, neighbors)


def _step_to(
    here: Tensor, entry: Tensor, degree: Tensor, neighbors: Neighbors
) -> Tensor:
    """Return `neighbors.node[entry]`, or `here` for walkers without neighbours."""
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
    copy_limit: int | None = None,
    roots: Tensor | None = None,
) -> RootedSubgraphs:
    """Sample random walks from every node, and return the subgraphs of visited nodes.

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
        generator: Random number generator, on the device of `edge_index`. If None,
            PyTorch's default generator is used.
        copy_limit: Upper limit on the number of node copies plus edge copies, and on
            the number of steps of all walks. If there would be more, `SizeError` is
            raised. If None, as many are allowed as fit into free memory.
        roots: The roots of the subgraphs, as in `egonets`. If None, all nodes.
    """
    check_count("length", length)
    check_count("repeats", repeats, least=1)
    check_count("max_hops", max_hops)
    check_edge_index(edge_index, num_nodes)
    root = check_roots(roots, num_nodes, edge_index.device)
    lower = "length, repeats or the number of nodes per batch"
    limit = CopyLimit(copy_limit, edge_index.device, lower)
    limit.check(root.numel() * repeats * length, "up to", "node copies")
    start = root.repeat_interleave(repeats)
    visited = random_walks(edge_index, num_nodes, start, length, p, q, generator)
    number = torch.arange(root.numel(), device=root.device).repeat_interleave(repeats)
    key = distinct(number[:, None] * num_nodes + visited)
    neighbors = incoming(edge_index, num_nodes)
    return induced_subgraphs(root, key, neighbors, max_hops, limit)


@dataclass(frozen=True)
class RandomWalks(Limited):
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
    """node2vec's in-out parameter; a large value keeps walks near the previous node."""
    max_hops: int = 10
    """Largest distance to the root that is computed; farther nodes have `hop` -1."""

    random = True
    """Always True: every call samples new subgraphs, so these are not cached."""

    def __post_init__(self) -> None:
        super().__post_init__()
        convert_count(self, "length")
        convert_count(self, "repeats", least=1)
        convert_count(self, "max_hops")
        check_bias(self.p, self.q)

    def __call__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        generator: torch.Generator | None = None,
        roots: Tensor | None = None,
    ) -> RootedSubgraphs:
        """Sample subgraphs of all nodes or `roots`; see `walk_subgraphs`."""
        options = self.length, self.repeats, self.p, self.q, self.max_hops
        limit = self.copy_limit
        return walk_subgraphs(edge_index, num_nodes, *options, generator, limit, roots)

"""Biased random walks, all walkers of a batch at once."""

from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.errors import GraphError, OptionError
from gnnak.graphs.adjacency import Neighbors, check_edge_index, incoming
from gnnak.graphs.ragged import chunk_cuts, pointers, ragged_ranges
from gnnak.subgraphs.induce import CHUNK, find_sorted
from gnnak.typing import check_count

LONG_ROW = 64
"""Nodes with more neighbours than this are left by trial, not by the whole row."""
MAX_TRIALS = 64
"""Trials before the whole row is looked at after all."""


class Bias(NamedTuple):
    """The weights of node2vec's second-order walk."""

    neighbors: Neighbors
    p: float
    q: float

    @property
    def largest(self) -> float:
        """The largest weight there is."""
        return max(1 / self.p, 1.0, 1 / self.q)

    def weight(self, before: Tensor, there: Tensor) -> Tensor:
        """The weight of going on to `there` for walkers that came from `before`."""
        pair = before * self.neighbors.num_nodes + there
        near = find_sorted(self.neighbors.key, pair)[1]
        weight = torch.full_like(there, 1 / self.q, dtype=torch.double)
        weight = weight.masked_fill(near, 1.0)
        return weight.masked_fill(there == before, 1 / self.p)


def check_bias(p: float, q: float) -> None:
    """Raise `OptionError` unless both parameters are positive numbers."""
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
    r"""Walk `length` steps from every start, all walkers at once (node2vec).

    A walker at $v$ that came from $t$ goes to neighbour $x$ with probability
    proportional to $1/p$ if $x = t$, to $1$ if $x$ is a neighbour of $t$, and to
    $1/q$ otherwise; the first step is uniform. The draw is exact: from the weights of
    all neighbours, or, at nodes with many, by a bounded number of trials before that.
    On directed graphs walkers go *against* the edges, so that every
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
    check_bias(p, q)
    check_count("length", length)
    check_edge_index(edge_index, num_nodes)
    if start.numel() and (start.min() < 0 or start.max() >= num_nodes):
        raise GraphError(f"start must hold nodes in 0..{num_nodes - 1}.")
    neighbors = incoming(edge_index, num_nodes)
    bias = Bias(neighbors, p, q)
    visited = [start]
    for _ in range(length):
        here = visited[-1]
        chance = torch.rand(
            here.shape, dtype=torch.double, device=here.device, generator=generator
        )
        if len(visited) == 1 or p == q == 1:
            there = _uniform_step(here, chance, neighbors)
        else:
            there = _biased_step(here, visited[-2], chance, bias, generator)
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
    bias: Bias,
    generator: torch.Generator | None,
) -> Tensor:
    """One biased step: by the whole row of neighbours, or by trial where it is long."""
    there = here.clone()
    every = torch.arange(here.numel(), device=here.device)
    long_row = bias.neighbors.rows(here)[1] > LONG_ROW
    trying = every[long_row]
    for _ in range(MAX_TRIALS):
        if not trying.numel():
            break
        drawn, accepted = _trial(here[trying], before[trying], bias, generator)
        there[trying[accepted]] = drawn[accepted]
        trying = trying[~accepted]
    rest = torch.cat([every[~long_row], trying])
    for part in torch.tensor_split(
        rest, chunk_cuts(bias.neighbors.rows(here[rest])[1], CHUNK)
    ):
        there[part] = _by_whole_row(here[part], before[part], chance[part], bias)
    return there


def _trial(
    here: Tensor, before: Tensor, bias: Bias, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """A uniform neighbour, and whether it is accepted: with chance weight / largest."""
    chance = torch.rand(
        (2, here.numel()), dtype=torch.double, device=here.device, generator=generator
    )
    drawn = _uniform_step(here, chance[0], bias.neighbors)
    return drawn, chance[1] * bias.largest < bias.weight(before, drawn)


def _by_whole_row(here: Tensor, before: Tensor, chance: Tensor, bias: Bias) -> Tensor:
    """Draw from the weights of all neighbours."""
    neighbors = bias.neighbors
    start, degree = neighbors.rows(here)
    walker, entry = ragged_ranges(start, degree)
    there = neighbors.node.index_select(0, entry)
    weight = bias.weight(before.index_select(0, walker), there)
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

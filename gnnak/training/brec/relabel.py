"""Relabel graphs at random, and collect them in batches."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.graphs.named import Graph
from gnnak.graphs.ragged import pointers
from gnnak.subgraphs import RootedSubgraphs

ATTEMPTS = 20
"""How many permutations are tried for each wanted relabelling before repeats are
allowed: small symmetric graphs have few distinct relabellings."""


class Batch(NamedTuple):
    """Some graphs without features, as the input of a network."""

    x: Tensor
    """[n, 1]: zeros, int64."""
    edge_index: Tensor
    """[2, e]: the edges of all graphs."""
    batch: Tensor
    """[n]: the index of the graph that each node belongs to."""
    num_graphs: int
    """Number of graphs, g."""
    subgraphs: RootedSubgraphs | None = None
    """The rooted subgraphs of all graphs; None if the network needs none."""


def relabellings(graph: Graph, count: int, generator: torch.Generator) -> list[Graph]:
    """Permute the nodes of a graph at random, `count` times.

    The relabelled graphs have distinct sets of edges, unless the graph has too few
    distinct relabellings.

    >>> path = (torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)
    >>> found = relabellings(path, 3, torch.Generator().manual_seed(0))
    >>> sorted(int(ends[0].bincount().argmax()) for ends, _ in found)
    [0, 1, 2]
    """
    edge_index, num_nodes = graph
    found: list[Graph] = []
    seen = set()
    for attempt in range(ATTEMPTS * count):
        if len(found) == count:
            break
        order = torch.randperm(num_nodes, generator=generator)
        ends = order[edge_index]
        key = tuple(torch.sort(ends[0] * num_nodes + ends[1]).values.tolist())
        if key not in seen or attempt >= (ATTEMPTS - 1) * count:
            seen.add(key)
            found.append((ends, num_nodes))
    return found


def collate(graphs: Sequence[Graph], device: torch.device) -> Batch:
    """Collect graphs, given as (edge_index, num_nodes), in one batch."""
    sizes = torch.tensor([num_nodes for _, num_nodes in graphs])
    edges = torch.tensor([ends.size(1) for ends, _ in graphs])
    edge_index = torch.cat([ends for ends, _ in graphs], dim=1)
    edge_index = edge_index + pointers(sizes)[:-1].repeat_interleave(edges)
    index = torch.arange(len(graphs)).repeat_interleave(sizes)
    x = torch.zeros(index.numel(), 1, dtype=torch.long)
    return Batch(x.to(device), edge_index.to(device), index.to(device), len(graphs))

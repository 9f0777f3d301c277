"""Relabel graphs at random, and collect them in batches."""

from collections.abc import Sequence

import torch

from gnnak.graphs.batch import GraphBatch
from gnnak.graphs.families import Graph
from gnnak.graphs.ragged import pointers

ATTEMPTS = 20
"""How many permutations are tried for each wanted relabelling before repeats are
allowed: small symmetric graphs have few distinct relabellings."""


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
        key = torch.sort(ends[0] * num_nodes + ends[1]).values.numpy().tobytes()
        if key not in seen or attempt >= (ATTEMPTS - 1) * count:
            seen.add(key)
            found.append((ends, num_nodes))
    return found


def collate(graphs: Sequence[Graph]) -> GraphBatch:
    """Collect graphs, given as (edge_index, num_nodes), in one batch.

    All nodes have the feature 0.
    """
    sizes = torch.tensor([num_nodes for _, num_nodes in graphs])
    edges = torch.tensor([ends.size(1) for ends, _ in graphs])
    edge_index = torch.cat([ends for ends, _ in graphs], dim=1)
    ptr = pointers(sizes)
    edge_index = edge_index + ptr[:-1].repeat_interleave(edges)
    index = torch.arange(len(graphs)).repeat_interleave(sizes)
    x = torch.zeros(index.numel(), 1, dtype=torch.long)
    return GraphBatch(x, edge_index, None, None, index, ptr)

"""Count the pairs of graphs to which a network gives different embeddings."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from gnnak.graphs.families import Graph
from gnnak.graphs.ragged import pointers

TOLERANCE = 1e-9
"""Relative difference above which two float64 embeddings count as different. It is far
above rounding errors (about 1e-13), and far below the differences between graphs that
the network can distinguish."""


class Embedder(Protocol):
    """A function that maps a batch of g graphs to one embedding of c channels each."""

    def __call__(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Embed a batch of graphs.

        Args:
            x: Zeros, [n], int64, since the nodes have no features.
            edge_index: Edges, [2, e].
            batch: The index of the graph that each node belongs to, [n].

        Returns:
            The embeddings, [g, c], float64.
        """


def embed(embedder: Embedder, graphs: Sequence[Graph]) -> Tensor:
    """Embed all graphs in one batch; return one row per graph, [g, c]."""
    sizes = torch.tensor([num_nodes for _, num_nodes in graphs])
    edges = torch.tensor([edge_index.size(1) for edge_index, _ in graphs])
    edge_index = torch.cat([edge_index for edge_index, _ in graphs], dim=1)
    edge_index = edge_index + pointers(sizes)[:-1].repeat_interleave(edges)
    batch = torch.arange(len(graphs)).repeat_interleave(sizes)
    return embedder(torch.zeros_like(batch), edge_index, batch)


def different(rows: Tensor) -> Tensor:
    """Return for each pair of embeddings whether they differ by more than `TOLERANCE`.

    Args:
        rows: The embedding of each graph, [g, c].

    Returns:
        A boolean matrix, [g, g].

    >>> rows = torch.tensor([[1.0, 2.0], [1.0, 2.0 + 1e-12], [1.0, 2.1]]).double()
    >>> different(rows)[0].tolist()
    [False, False, True]
    """
    rows = rows.detach()
    size = rows.abs().amax(dim=1)
    larger = torch.maximum(size[:, None], size[None, :])
    return torch.cdist(rows, rows, p=torch.inf) > TOLERANCE * larger


def pairs_different(embedder: Embedder, groups: Sequence[Sequence[Graph]]) -> int:
    """Count the pairs of graphs of the same group that have different embeddings.

    Args:
        embedder: The network.
        groups: Groups of graphs; graphs of different groups are not compared.
    """
    with torch.no_grad():
        rows = embed(embedder, [graph for group in groups for graph in group])
    parts = rows.split([len(group) for group in groups])
    return sum(int(different(part).triu(1).sum()) for part in parts)


def push_apart(network: nn.Module, graphs: Sequence[Graph], steps: int) -> None:
    r"""Train a network, in place, to give different graphs different embeddings.

    Adam minimises the mean of $-\log(|h_G - h_H|^2 + 10^{-8})$ over all pairs of
    graphs G, H. Here $|\cdot|^2$ is the mean square over channels, and the embeddings
    $h$ are scaled to a mean absolute value of 1. The network should be in evaluation
    mode: in training mode, batch statistics would make the embedding of one graph
    depend on the others. This function does not change the mode.

    Args:
        network: A module that is an `Embedder`.
        graphs: At least two graphs.
        steps: Number of optimiser steps.
    """
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        rows = embed(network, graphs)
        rows = rows / rows.detach().abs().mean().clamp(min=1e-12)
        gap = (rows[:, None] - rows[None]).square().mean(dim=2)
        (-torch.log(gap + 1e-8).mean()).backward()
        optimizer.step()

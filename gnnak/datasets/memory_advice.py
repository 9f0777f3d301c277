"""Advice for training steps that would take more memory than is free."""

from __future__ import annotations

import torch

from gnnak.datasets.sizes import SubgraphSizes, subgraph_sizes
from gnnak.errors import SizeError
from gnnak.graphs import GraphStore
from gnnak.subgraphs.copy_limit import free_bytes
from gnnak.subgraphs.encodings import without_encodings
from gnnak.subgraphs.extractors import Extractor

SAMPLE = 64
"""Number of graphs whose rooted subgraphs are measured."""


def sampled_sizes(store: GraphStore, extractor: Extractor) -> SubgraphSizes | None:
    """Measure the rooted subgraphs of some graphs, evenly spaced in a store.

    Returns:
        The sizes; None if there are no graphs, or if the subgraphs of one graph alone
        do not fit into memory, which the extractor will refuse with an error.
    """
    if not len(store):
        return None
    count = min(SAMPLE, len(store))
    chosen = torch.linspace(0, len(store) - 1, count).round().long()
    generator = torch.Generator().manual_seed(0)
    given = (store.subset(chosen), without_encodings(extractor), generator)
    try:
        parts = list(subgraph_sizes(*given))
    except SizeError:
        return None
    return SubgraphSizes.join(parts)


def memory_advice(needed: float, batch_size: int, device: torch.device) -> str | None:
    """Say what to do if a training step needs more memory than is free.

    Args:
        needed: Estimated memory of a training step, in bytes.
        batch_size: Number of graphs per step.
        device: The device of the network.

    Returns:
        A sentence; None if the memory suffices, or is not known.
    """
    free = free_bytes(device)
    if free is None or needed <= free:
        return None
    fitting = int(batch_size * free / needed)
    lower = "fewer layers, channels or hops"
    advice = f"a batch size of {fitting}, or {lower}" if fitting > 1 else lower
    return (
        f"a training step on {batch_size} graphs needs about {needed / 2**30:.1f} GiB, "
        f"but {free / 2**30:.1f} GiB are free; use {advice}, or a model with the "
        "suffix -s, which trains on a sample of the subgraphs."
    )

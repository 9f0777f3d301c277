"""Concatenate training, validation and test graphs."""

from collections.abc import Iterable

import torch

from gnnak.graphs import GraphFile, GraphStore

SPLITS = ("train", "val", "test")


def concatenated(stores: Iterable[GraphStore]) -> GraphFile:
    """Concatenate training, validation and test graphs; return them with the split."""
    parts = list(stores)
    sizes = torch.tensor([len(part) for part in parts])
    split = torch.arange(len(parts)).repeat_interleave(sizes)
    return GraphFile(GraphStore.concatenate(parts), split)

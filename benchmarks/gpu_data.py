"""Data sets as large as in training, from whatever part of them is at hand."""

from dataclasses import replace

import torch

from gnnak.datasets import find_entry, load_dataset
from gnnak.datasets.assemble import build
from gnnak.datasets.pattern import pattern_graphs
from gnnak.datasets.record import Dataset
from gnnak.graphs.reverse_edges import with_reverse_edges

SIZES = {
    "zinc": (10_000, 1_000, 1_000),
    "cifar10": (45_000, 5_000, 10_000),
    "pattern": (10_000, 2_000, 2_000),
    "counting": (1_500, 1_000, 2_500),
}
"""Graphs for training, validation and test."""
DRAWN = (700, 20, 20)
"""Graphs of PATTERN that are generated: all of them would take a minute."""


def full_size(name: str) -> Dataset:
    """The data set, in which graphs come again where there are too few."""
    if name == "pattern":
        info = find_entry(name).info
        drawn = pattern_graphs(parts=DRAWN)
        both_ways = replace(drawn, store=with_reverse_edges(drawn.store))
        dataset = build(info, both_ways, "generated (seed 0)")
    else:
        dataset = load_dataset(name)
    return repeated(dataset, SIZES[name])


def repeated(dataset: Dataset, sizes: tuple[int, ...]) -> Dataset:
    """The data set with so many graphs in each part of its split.

    A part without graphs takes those for training.
    """
    assert dataset.split is not None
    counts = torch.bincount(dataset.split, minlength=len(sizes)).tolist()
    if tuple(counts) == sizes:
        return dataset
    chosen = []
    for part, size in enumerate(sizes):
        own = (dataset.split == (part if counts[part] else 0)).nonzero().flatten()
        chosen.append(own[torch.arange(size) % own.numel()])
    split = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    store = dataset.store.subset(torch.cat(chosen))
    source = f"{dataset.info.source}, {sum(counts):,} graphs repeated"
    return Dataset(replace(dataset.info, source=source), store, split)

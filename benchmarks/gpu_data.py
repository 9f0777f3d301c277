"""Load data sets in full size for benchmarks; repeat graphs if a file has too few."""

from dataclasses import replace

import torch

from gnnak.datasets import find_entry, load_dataset
from gnnak.datasets.assemble import build
from gnnak.datasets.loaders import pattern_graphs
from gnnak.datasets.record import Dataset
from gnnak.graphs.store import with_reverse_edges

SIZES = {
    "zinc": (10_000, 1_000, 1_000),
    "cifar10": (45_000, 5_000, 10_000),
    "pattern": (10_000, 2_000, 2_000),
    "counting": (1_500, 1_000, 2_500),
}
"""Full size of each data set: number of training, validation and test graphs."""
GENERATED = (700, 20, 20)
"""Number of PATTERN graphs to generate for training, validation and test. They are
repeated up to the full size, because generating all 14 000 takes a minute."""


def full_size(name: str) -> Dataset:
    """Return a data set in its full size; graphs are repeated if there are too few."""
    if name == "pattern":
        info = find_entry(name).info
        generated = pattern_graphs(parts=GENERATED)
        both_ways = replace(generated, store=with_reverse_edges(generated.store))
        dataset = build(info, both_ways, "generated (seed 0)")
    else:
        dataset = load_dataset(name)
    return repeated(dataset, SIZES[name])


def repeated(dataset: Dataset, sizes: tuple[int, ...]) -> Dataset:
    """Repeat graphs until each part of the split has the given size.

    If a part has no graphs, training graphs are used for it.

    Args:
        dataset: A data set with a split.
        sizes: Number of training, validation and test graphs in the result.
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

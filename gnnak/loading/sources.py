"""Read the graphs of a `GraphLoader` from any of the kinds that it accepts."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

from torch.utils import data as torch_data

from gnnak.datasets.record import Dataset
from gnnak.errors import GraphError, OptionError
from gnnak.graphs import GraphStore
from gnnak.graphs.readers.pyg_fields import FieldStore, check_has_values, read_fields
from gnnak.wording import described, kind_of

PARTS = ("train", "validation", "test")
"""The parts of a data set with a split, in the order of the numbers in `split`."""


def find_graphs(graphs: object) -> Sized:
    """Return what a user gave as graphs, or the graphs that it stands for.

    Args:
        graphs: A list of PyG `Data`, a PyG data set, another data set of `Data` with
            `__len__` and `__getitem__`, such as a `ConcatDataset` or the `Subset` that
            `torch.utils.data.random_split` returns, a `GraphStore`, a `Dataset` of
            gnnak, or the name of a data set, such as "zinc". With a part after the
            name, such as "zinc/train", only the graphs of that part are used; the parts
            are "train", "validation" and "test".

    Returns:
        The argument itself if its graphs can be counted and indexed. For a name or a
        `Dataset` of gnnak, its `GraphStore`; for an iterator, a list.

    Raises:
        GraphError: If `graphs` is none of these.
        OptionError: If there is no such data set or part.
    """
    if isinstance(graphs, str):
        return _named(graphs)
    if isinstance(graphs, Dataset):
        return graphs.store
    if isinstance(graphs, Mapping):
        raise GraphError(
            f"graphs is {kind_of(graphs)}; give a list, such as list(graphs.values())."
        )
    if hasattr(graphs, "dataset") and hasattr(graphs, "batch_size"):
        raise GraphError(
            f"graphs is {kind_of(graphs)}, which yields batches; give its graphs, "
            "loader.dataset."
        )
    a_class = isinstance(graphs, type)
    if hasattr(graphs, "__len__") and hasattr(graphs, "__getitem__") and not a_class:
        return graphs
    if not isinstance(graphs, Iterable):
        kind = described(graphs) if a_class else kind_of(graphs)
        raise GraphError(
            f"graphs is {kind}; give a list of PyG Data, a data set of them "
            "with __len__ and __getitem__, a GraphStore or the name of a data set."
        )
    return list(graphs)


def read_graphs(graphs: Any) -> FieldStore:
    """Convert graphs to flat tensors, with all their fields.

    Args:
        graphs: The graphs, as `find_graphs` returns them. The `transform` of a PyG data
            set is applied once, with a warning.

    Raises:
        GraphError: If a graph is malformed, or if there are no graphs.
    """
    if isinstance(graphs, GraphStore):
        if not len(graphs):
            raise GraphError("there are no graphs; give at least one.")
        check_has_values(vars(graphs).items())
        return FieldStore(graphs.check(), has_counts=graphs.x is None)
    _warn_of_transform(graphs)
    stream = isinstance(graphs, torch_data.IterableDataset)
    mapped = isinstance(graphs, torch_data.Dataset) and not stream
    if mapped or not isinstance(graphs, Iterable):
        # Iterating over such a data set may not stop at its length.
        graphs = [graphs[index] for index in range(len(graphs))]
    return read_fields(graphs)


def _warn_of_transform(graphs: object) -> None:
    """Warn that the transform of a PyG data set is not applied anew in each epoch."""
    whole = _whole_data_sets(graphs)
    found = [each for each in whole if getattr(each, "transform", None) is not None]
    for name in dict.fromkeys(type(each).__name__ for each in found):
        logging.getLogger("gnnak").warning(
            "the transform of %s is applied once, when GraphLoader reads the graphs, "
            "and not anew in each epoch; if it is random, use PyG's DataLoader",
            name,
        )


def _whole_data_sets(graphs: object) -> Iterator[object]:
    """Yield the data sets that a `Subset` or a `ConcatDataset` has graphs of."""
    if isinstance(graphs, torch_data.Subset):
        yield from _whole_data_sets(graphs.dataset)
    elif isinstance(graphs, torch_data.ConcatDataset):
        for each in graphs.datasets:
            yield from _whole_data_sets(each)
    else:
        yield graphs


def _named(name: str) -> GraphStore:
    """Load a data set by name, such as "zinc", or a part of it: "zinc/train"."""
    from gnnak.datasets import dataset_names, load_dataset

    text = name
    name, _, part = text.partition("/")
    if part not in ("", *PARTS) and name.lower() not in dataset_names():
        raise OptionError(
            f"there is no data set {text!r}; if it is a file, read its graphs first, "
            "for example with torch.load, and give them as a list."
        )
    dataset = load_dataset(name)
    if not part:
        return dataset.store
    if part not in PARTS:
        raise OptionError(
            f"{name} has no part {part!r}; give one of "
            f"{', '.join(f'{name}/{known}' for known in PARTS)}."
        )
    if dataset.split is None:
        raise OptionError(f"{name} has no fixed split; give '{name}' for all graphs.")
    return dataset.store.subset(dataset.split == PARTS.index(part))

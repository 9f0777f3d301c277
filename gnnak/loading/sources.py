"""Read the graphs of a `GraphLoader` from any of the kinds that it accepts."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from torch.utils.data import Subset

from gnnak.datasets.record import Dataset
from gnnak.errors import GraphError, OptionError
from gnnak.graphs import GraphStore
from gnnak.graphs.readers.pyg_fields import FieldStore, read_fields
from gnnak.wording import kind_of

PARTS = ("train", "validation", "test")
"""The parts of a data set with a split, in the order of the numbers in `split`."""


def read_graphs(graphs: object) -> FieldStore:
    """Convert graphs to flat tensors, with all their fields.

    Args:
        graphs: A list of PyG `Data`, a PyG data set, a `Subset` of one, as
            `torch.utils.data.random_split` returns, a `GraphStore`, a `Dataset` of
            gnnak, or the name of a data set, such as "zinc". With a part after the
            name, such as "zinc/train", only the graphs of that part are used; the parts
            are "train", "validation" and "test". The `transform` of a PyG data set is
            applied once, with a warning.

    Raises:
        GraphError: If a graph is malformed, or if there are no graphs.
        OptionError: If there is no such data set or part.
    """
    if isinstance(graphs, str):
        return read_graphs(_named(graphs))
    if isinstance(graphs, Dataset):
        return read_graphs(graphs.store)
    if isinstance(graphs, FieldStore):
        return graphs
    if not isinstance(graphs, GraphStore):
        _warn_of_transform(graphs)
        if isinstance(graphs, Subset):
            graphs = [graphs[index] for index in range(len(graphs))]
        if not isinstance(graphs, Iterable):
            raise GraphError(
                f"graphs is {kind_of(graphs)}; give a list of PyG Data, a PyG "
                "data set, a GraphStore or the name of a data set."
            )
        return read_fields(graphs)
    if not len(graphs):
        raise GraphError("there are no graphs; give at least one.")
    return FieldStore(graphs, has_counts=graphs.x is None)


def _warn_of_transform(graphs: object) -> None:
    """Warn that the transform of a PyG data set is not applied anew in each epoch."""
    while isinstance(graphs, Subset):
        graphs = graphs.dataset
    if getattr(graphs, "transform", None) is not None:
        logging.getLogger("gnnak").warning(
            "the transform of %s is applied once, when GraphLoader reads the graphs, "
            "and not anew in each epoch; if it is random, use PyG's DataLoader",
            type(graphs).__name__,
        )


def _named(name: str) -> GraphStore:
    """Load a data set by name, such as "zinc", or a part of it: "zinc/train"."""
    from gnnak.datasets import load_dataset

    name, _, part = name.partition("/")
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

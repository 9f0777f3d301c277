"""Check the arguments of a `GraphLoader`, and read its graphs."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

import torch
from torch.utils import data as torch_data

from gnnak.datasets.record import Dataset
from gnnak.errors import GraphError, OptionError, described, kind_of
from gnnak.graphs import GraphStore
from gnnak.graphs.readers.npz import PARTS
from gnnak.graphs.readers.pyg import (
    Attributes,
    FieldStore,
    check_has_values,
    read_fields,
)
from gnnak.loading.order import Budget
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.extractors import check_extractor
from gnnak.typing import as_count


def refuse_others(loader: type, others: Mapping[str, object], reason: str) -> None:
    """Raise `OptionError` if `others` has an option, such as `num_workers` of PyG."""
    options = list(loader.__init__.__annotations__)[:-2]  # type: ignore[misc]
    for name in others:
        raise OptionError(
            f"{loader.__name__} has no option {name!r}: it {reason}; leave it out, or "
            f"use one of: {', '.join(options)}."
        )


def check_batch_size(batch_size: object, drop_last: object) -> int | Budget:
    if not isinstance(batch_size, Budget):
        return as_count("batch_size", batch_size, least=1)
    if drop_last:
        raise OptionError(
            "batches of a Budget have no fixed number of graphs, so drop_last has no "
            "meaning; leave it out, or give a number as batch_size."
        )
    return batch_size


def usable_device(device: torch.device | str | None) -> torch.device | None:
    if device is None:
        return None
    try:
        found = torch.zeros(0, device=device).device
    except (RuntimeError, AssertionError, TypeError, ImportError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        raise OptionError(
            f"device {device!r} cannot be used: {reason}; give 'cpu' or another device."
        ) from error
    if found.type == "meta":
        raise OptionError(
            f"device {str(device)!r} cannot be used: its tensors have no values; give "
            "'cpu' or 'cuda'."
        )
    return found


def check_subgraphs(extractor: object, drop: object) -> None:
    if extractor is not None:
        check_extractor("subgraphs", extractor)
    if drop is None:
        return
    if not isinstance(drop, SubgraphDrop):
        raise OptionError(
            f"drop is {drop!r}; give a SubgraphDrop, such as "
            "gnnak.SubgraphDrop('random', min_coverage=3)."
        )
    if extractor is None:
        raise OptionError(
            "drop samples rooted subgraphs, but there are none; give subgraphs too, "
            "such as subgraphs=gnnak.EgoNets(3)."
        )


def check_field_names(fields: Attributes, extractor: object) -> None:
    names = {*fields.tensors, *fields.objects}
    if extractor is not None and "subgraphs" in names:
        raise GraphError(
            "the graphs have a field 'subgraphs', but the loader stores the rooted "
            "subgraphs of a batch under this name; rename the field."
        )


def check_has_edges(graphs: FieldStore, extractor: object) -> None:
    if extractor is None or graphs.has_edges:
        return
    for number, size in enumerate(graphs.store.counts[0].tolist()):
        if size > 1:
            raise GraphError(
                f"graph {number} has {size} nodes and no edge_index, so each rooted "
                "subgraph would be a single node; set edge_index, which may be empty, "
                "[2, 0], or leave out subgraphs."
            )


def find_graphs(graphs: object) -> Sized:
    """Load a data set by name, turn an iterator into a list, or return `graphs`."""
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
    whole = _whole_data_sets(graphs)
    found = [each for each in whole if getattr(each, "transform", None) is not None]
    for name in dict.fromkeys(type(each).__name__ for each in found):
        logging.getLogger("gnnak").warning(
            "the transform of %s is applied once, when GraphLoader reads the graphs, "
            "and not anew in each epoch; if it is random, use PyG's DataLoader",
            name,
        )


def _whole_data_sets(graphs: object) -> Iterator[object]:
    """Yield the data sets inside a `Subset` or `ConcatDataset`; else yield `graphs`."""
    if isinstance(graphs, torch_data.Subset):
        yield from _whole_data_sets(graphs.dataset)
    elif isinstance(graphs, torch_data.ConcatDataset):
        for each in graphs.datasets:
            yield from _whole_data_sets(each)
    else:
        yield graphs


def _named(name: str) -> GraphStore:
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
    if dataset.info.one_graph:
        raise OptionError(
            f"{name} is one graph, whose nodes are split; give '{name}', or use "
            "gnnak.RootLoader."
        )
    if dataset.split is None:
        raise OptionError(f"{name} has no fixed split; give '{name}' for all graphs.")
    return dataset.store.subset(dataset.split == PARTS.index(part))

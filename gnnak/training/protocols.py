"""Protocols: how a data set is split into training, validation and test graphs."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.datasets.record import Dataset, DatasetInfo, Protocol
from gnnak.errors import OptionError, TrainingError, counted


@dataclass(frozen=True, eq=False)
class Parts:
    """Indices of the training, validation and test graphs, or nodes of one graph."""

    train: Tensor
    validation: Tensor
    """Indices of the graphs scored after each epoch, to choose the best epoch."""
    test: Tensor
    """Indices of the graphs scored once, with the weights of the best epoch."""
    batch_statistics: bool = False
    """Whether batch norms use the statistics of the batch also in evaluation."""


def num_folds(dataset: Dataset, protocol: Protocol) -> int:
    """Return how many folds a protocol uses on a data set, or 0 if it uses none."""
    published_whole = protocol == "published" and not dataset.info.published_in_folds
    if published_whole or (protocol == "split" and not dataset.info.one_graph):
        return 0
    return dataset.num_folds


def choose_parts(
    dataset: Dataset, protocol: Protocol, fold: int | None = None
) -> Parts:
    """Split a data set into training, validation and test graphs, by a protocol.

    - `split`: the split of the data set. If one graph has several, `fold` chooses one.
    - `published` (GIN paper): one fold for validation and test, others for training.
    - `held-out`: one fold for test, the next for validation, the others for training.

    Without folds, `published` and `held-out` use all graphs for all parts. On SR25,
    `published` also evaluates with the statistics of the batch in batch norms.
    """
    info = dataset.info
    if protocol not in info.protocols:
        raise OptionError(
            f"data.protocol is {protocol!r}; {info.name} has "
            f"{' and '.join(info.protocols)}: add --protocol {info.protocols[0]}."
        )
    folds = num_folds(dataset, protocol)
    if fold is not None and not folds:
        raise OptionError(
            f"data.fold is {fold}, but {info.name} has no folds under the {protocol} "
            "protocol; leave it out."
        )
    if fold is not None and not fold < folds:
        raise OptionError(
            f"data.fold is {fold}; {info.name} has {folds} folds under the "
            f"{protocol} protocol, numbered from 0."
        )
    if folds and fold is None:
        raise OptionError(f"{info.name} has {folds} folds; say which with data.fold.")
    if protocol == "split":
        if dataset.split is None:
            raise OptionError(
                f"{info.source} of {info.name} has no split; give a file with one."
            )
        split = dataset.split if fold is None else dataset.split[fold]
        return _parts(*(split == part for part in range(3)))
    if not folds:
        everything = torch.arange(len(dataset.store))
        published = protocol == "published"
        return Parts(
            everything, everything, everything, published and info.batch_statistics
        )
    assert fold is not None
    assert dataset.folds is not None
    train, test = (dataset.folds[fold] == role for role in (0, 1))
    if protocol == "published":
        return _parts(train, test, test)
    validation = (dataset.folds[(fold + 1) % folds] == 1) & train
    return _parts(train & ~validation, validation, test)


def check_parts(info: DatasetInfo, parts: Parts, processes: int) -> None:
    """Raise `TrainingError` if `processes` processes cannot train on these parts."""
    what = "node" if info.one_graph else "graph"
    if info.one_graph and processes > 1:
        raise TrainingError(
            f"{info.name} is one graph, which gnnak trains on in one process; leave "
            "out --devices and --num-nodes, or use gnnak.RootLoader in your own loop."
        )
    advice = "give data, or a split, with some"
    if info.one_graph:
        advice = "add val_mask to the graph, or give --split random (split='random')"
    for part in ("validation",) if info.own_data else ("validation", "test"):
        if not getattr(parts, part).numel():
            raise TrainingError(f"{info.name} has no {part} {what}s; {advice}.")
    count = parts.train.numel()
    if count < 2 * processes:
        raise TrainingError(
            f"{info.name} has {counted(count, what)} to train on, and "
            f"{counted(processes, 'process')}; give at least two {what}s per process."
        )


def _parts(*masks: Tensor) -> Parts:
    train, validation, test = (mask.nonzero().flatten() for mask in masks)
    return Parts(train, validation, test)

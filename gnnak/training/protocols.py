"""Protocols: which graphs are for training, validation and test."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.datasets.record import Dataset, Protocol
from gnnak.errors import OptionError


@dataclass(frozen=True, eq=False)
class Parts:
    """The indices of the graphs of each part of a data set."""

    train: Tensor
    """Graphs for training."""
    validation: Tensor
    """Graphs scored after each epoch, to choose the weights of the best epoch."""
    test: Tensor
    """Graphs scored once, with these weights."""
    batch_statistics: bool = False
    """Whether norms use batch statistics in evaluation, as in training."""


def num_folds(dataset: Dataset, protocol: Protocol) -> int:
    """Return the number of folds of a protocol; 0 if it has none.

    `published` has folds only if the published results do; those on EXP, for example,
    are trained and scored on all graphs.
    """
    published_whole = protocol == "published" and not dataset.info.published_in_folds
    if protocol == "split" or published_whole:
        return 0
    return dataset.num_folds


def choose_parts(
    dataset: Dataset, protocol: Protocol, fold: int | None = None
) -> Parts:
    """Split a data set as its protocol says.

    - `split`: the split of the data set.
    - `published`, with folds (the GIN protocol): one fold is both validation and test,
      the others are for training.
    - `published`, without folds: all graphs are for training, validation and test.
    - `held-out`, with folds: one fold is the test, the next one the validation, the
      others are for training. Without folds: as `published`, but norms do not use
      batch statistics in evaluation.

    Args:
        dataset: The graphs.
        protocol: A protocol of the data set.
        fold: The number of the fold, for protocols with folds.

    Raises:
        OptionError: If the data set has no such protocol or fold.
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
    if protocol == "split":
        if dataset.split is None:
            raise OptionError(
                f"{info.source} of {info.name} has no split; give a file with one."
            )
        return _parts(*(dataset.split == part for part in range(3)))
    if not folds:
        everything = torch.arange(len(dataset.store))
        published = protocol == "published"
        return Parts(
            everything, everything, everything, published and info.batch_statistics
        )
    if fold is None:
        raise OptionError(f"{info.name} has {folds} folds; say which with data.fold.")
    return _of_fold(dataset, protocol, fold)


def _of_fold(dataset: Dataset, protocol: Protocol, fold: int) -> Parts:
    assert dataset.folds is not None
    train, test = (dataset.folds[fold] == role for role in (0, 1))
    if protocol == "published":
        validation = test
    else:
        validation = (dataset.folds[(fold + 1) % dataset.num_folds] == 1) & train
        train = train & ~validation
    return _parts(train, validation, test)


def _parts(*masks: Tensor) -> Parts:
    train, validation, test = (mask.nonzero().flatten() for mask in masks)
    return Parts(train, validation, test)

"""Which graphs are trained on, chosen by, and tested on."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.datasets.record import Dataset, Protocol
from gnnak.errors import OptionError


@dataclass(frozen=True, eq=False)
class Parts:
    """Positions of graphs in the store, one tensor a part."""

    train: Tensor
    """Trained on."""
    validation: Tensor
    """Scored after each epoch; the best of these scores says which weights count."""
    test: Tensor
    """Scored once, with those weights."""
    batch_statistics: bool = False
    """Whether scores are taken with the statistics of the batch, as in training."""


def num_folds(dataset: Dataset, protocol: Protocol) -> int:
    """How many runs, one a fold, the protocol has; 0 if it has no folds.

    `published` has folds only where the published runs do: EXP's are trained and
    scored on all graphs.
    """
    published_whole = protocol == "published" and not dataset.info.published_in_folds
    if protocol == "split" or published_whole:
        return 0
    return dataset.num_folds


def choose_parts(
    dataset: Dataset, protocol: Protocol, fold: int | None = None
) -> Parts:
    """Cut a data set as its protocol says.

    - `split`: as given.
    - `published`, with folds (the GIN protocol): trained on nine of ten folds; the
      tenth is both validation and test.
    - `published`, without: all graphs are trained on, validated on and tested on.
    - `held-out`, with folds: tested on one fold, validated on the next one, trained on
      the others. Without folds: as `published`, but scored in evaluation mode.

    Args:
        dataset: The graphs.
        protocol: One that the data set has.
        fold: Which fold, for protocols with folds.
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

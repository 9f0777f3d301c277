"""The default options of runs on the user's own data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gnnak.datasets.own.load import data_name
from gnnak.datasets.own.options import OwnData
from gnnak.datasets.record import Protocol
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig

DEFAULTS: dict[str, Any] = {
    "model.num_layers": 3,
    "model.channels": 64,
    "train.epochs": 60,
    "train.early_stop": 20,
    "train.batch_size": 32,
    "train.step": 15,
}
"""Options for own data that differ from those of `RunConfig`: a smaller network, which
trains in minutes on a CPU with some hundred molecules."""


def own_config(
    own: OwnData, seed: int, options: Mapping[str, Any], fold: int | None = None
) -> RunConfig:
    """Return the options of a run on own data.

    Args:
        own: Files, columns, task, metric and split.
        seed: Seed of the split, the weights and the batches.
        options: Options that differ from the defaults, by name.
        fold: Number of the cross-validation fold; None = no or all folds.
    """
    config = change(RunConfig(), DEFAULTS | {"train.seed": seed, "data.seed": seed})
    config = change(config, options)
    protocol: Protocol = "split" if own.folds is None else "held-out"
    data = replace(
        config.data, name=data_name(own.path), own=own, protocol=protocol, fold=fold
    )
    return replace(config, data=data)

"""The command that repeats a run: `gnnak train` with all options that matter."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from gnnak.datasets.own.options import OwnData
from gnnak.training.config.experiment import (
    Experiment,
    experiment_names,
    load_experiment,
)
from gnnak.training.config.options import change
from gnnak.training.config.own_defaults import DEFAULTS
from gnnak.training.config.run_config import RunConfig

FLAGS = {
    "smiles": "--smiles",
    "targets": "--target",
    "labels": "--targets",
    "task": "--task",
    "metric": "--metric",
    "split": "--split",
    "validation": "--validation",
    "test": "--test",
    "folds": "--folds",
    "node_attr": "--node-attr",
    "edge_attr": "--edge-attr",
    "graphs": "--graphs",
}
"""Options of `gnnak train` for the fields of `OwnData`."""


def train_command(config: RunConfig) -> str | None:
    """Return the command that trains with these options.

    Files are named without their folders.

    Returns:
        The command; None if the graphs came from a Python list.

    >>> train_command(load_experiment("zinc").config)
    'gnnak train zinc --model gin-ak+ --seed 0'
    """
    data, own = config.data, config.data.own
    if own.path is not None:
        words = [Path(own.path).name, *_own_words(own)]
        start = change(RunConfig(), DEFAULTS)
    elif data.name in experiment_names():
        words = [data.name, *_own_words(OwnData(graphs=own.graphs))]
        words += [] if data.target is None else ["--target", data.target]
        start = load_experiment(data.name).config
        if data.protocol != start.data.protocol:
            words += ["--protocol", data.protocol]
    else:
        return None
    words += ["--model", config.model.name, "--seed", str(config.train.seed)]
    words += [] if data.fold is None else ["--fold", str(data.fold)]
    named = {"model.name": config.model.name, "train.seed": config.train.seed}
    start = replace(change(start, named), data=data)
    for setting in Experiment(data.name, start).settings(config):
        words += ["--set", setting]
    return shlex.join(["gnnak", "train", *words])


def _own_words(own: OwnData) -> list[str]:
    """Return the options for own data, as words of a command."""
    words = []
    for name, flag in FLAGS.items():
        value: Any = getattr(own, name)
        if name in ("labels", "validation", "test") and value is not None:
            value = Path(value).name
        for each in value if isinstance(value, tuple) else (value,):
            words += [] if each is None else [flag, str(each)]
    return [*words, "--skip-bad"] if own.skip_bad else words

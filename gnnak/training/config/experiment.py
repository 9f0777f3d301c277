"""Experiments: YAML files with the options of the runs on one data set."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gnnak.datasets.own.load import data_name
from gnnak.datasets.own.options import OwnData
from gnnak.datasets.record import Protocol
from gnnak.errors import FileFormatError, OptionError
from gnnak.graphs.readers.files import read_bytes
from gnnak.models.factory import parse_name
from gnnak.models.members import MEMBERS
from gnnak.training.config.options import (
    MAX_CHARACTERS,
    InvalidYamlError,
    change,
    parse_yaml,
    shown,
)
from gnnak.training.config.run_config import RunConfig
from gnnak.typing import check_count, check_known

CONFIGS = Path(__file__).parents[2] / "configs"
"""The folder of the YAML files that are installed with the package."""


@dataclass(frozen=True)
class Experiment:
    """An experiment: the options of runs on one data set, and the number of seeds."""

    name: str
    """The name of the experiment: the name of the YAML file, without the suffix."""
    config: RunConfig = field(default_factory=RunConfig)
    """The options that all runs of the experiment share."""
    runs: int = 1
    """Number of runs, with seeds 0, 1, ...; results are averaged over these runs."""
    members: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of subgraph GNNs other than GNN-AK, as published: maps the first part of
    the name of a model, such as "sswl+", to options by name."""

    def __post_init__(self) -> None:
        check_count("runs", self.runs, least=1)
        if not isinstance(self.members, Mapping):
            raise OptionError(f"members is {shown(self.members)}; give name: options.")
        for member, options in self.members.items():
            check_known("subgraph GNN", member, MEMBERS)
            if not isinstance(options, Mapping):
                raise OptionError(
                    f"members.{member} is {shown(options)}; give options, such as "
                    "model: {channels: 96}."
                )
            change(self.config, options)

    def config_for(self, model: str | None = None) -> RunConfig:
        """Return the options of the runs of a model, as published for the model.

        Args:
            model: The name of the model; None = the model that `config` names.

        >>> load_experiment("zinc").config_for("sswl+-gin").model.channels
        96
        """
        if model is None:
            return self.config
        options = self.members.get(parse_name(model).member or "", {})
        return change(self.config, {"model.name": model, **options})

    def settings(self, config: RunConfig) -> list[str]:
        """Return the options of a config that differ from the experiment's.

        They are texts for the command-line option `--set`.

        >>> config = change(load_experiment("zinc").config, {"train.seed": 2})
        >>> load_experiment("zinc").settings(config)
        ['train.seed=2']
        """
        start, own = flat(self.config.to_dict()), flat(config.to_dict())
        changed = {key: own[key] for key in own if own[key] != start[key]}
        return [f"{key}={json.dumps(value)}" for key, value in changed.items()]


def experiment_names() -> list[str]:
    """Return the names of the experiments that are installed with the package.

    >>> "zinc" in experiment_names()
    True
    """
    return sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def load_experiment(name: str) -> Experiment:
    """Read the YAML file of an experiment.

    Args:
        name: One of `experiment_names`, in any case, or the path of a YAML file.

    Raises:
        OptionError: If there is no experiment of this name, or if the file has an
            unknown option or an invalid value.
        FileFormatError: If the content of the file is not a YAML mapping.
    """
    if name.lower() in experiment_names():
        name = name.lower()
    path = CONFIGS / f"{name}.yaml"
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
    else:
        more = ", or the path of a YAML file or of your own data"
        check_known("data set or file", name, experiment_names(), more)
    options = dict(read_yaml(path))
    names = Counter(_option_names(options))
    for name, times in names.items():
        if times > 1:
            raise OptionError(f"{path.name}: {name} is set twice; remove one of both.")
    runs, members = options.pop("runs", 1), options.pop("members", {})
    try:
        return Experiment(path.stem, change(RunConfig(), options), runs, members)
    except OptionError as error:
        raise OptionError(f"{path.name}: {error}") from error


def _option_names(options: Mapping[Any, Any], prefix: str = "") -> Iterator[str]:
    """Yield the names of all options, with dots, such as `train.epochs`.

    In a file, `train.epochs: 3` and `train: {epochs: 3}` set the same option.
    """
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from _option_names(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def read_yaml(path: Path) -> Mapping[str, Any]:
    """Read a YAML file whose content is a mapping.

    Raises:
        FileFormatError: If the file is not YAML, has a key twice, is too large or too
            deeply nested for settings, or its content is not a mapping.
    """
    text = read_bytes(path, at_most=4 * MAX_CHARACTERS)
    try:
        content = parse_yaml(text.decode("utf-8"))
    except (InvalidYamlError, UnicodeDecodeError) as error:
        line = getattr(error, "line", None)
        where = f", line {line}" if line else ""
        reason = error if isinstance(error, InvalidYamlError) else "not YAML"
        raise FileFormatError(f"{path}{where}: {reason}; correct the file.") from error
    if not isinstance(content, Mapping):
        raise FileFormatError(f"{path}: not a YAML mapping; give lines of key: value.")
    return content


def flat(options: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested mappings: `{"a": {"b": 1}}` becomes `{"a.b": 1}`."""
    found: dict[str, Any] = {}
    for key, value in options.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


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

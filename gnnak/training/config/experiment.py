"""Experiments: YAML files with the options of the runs on one data set.

A file lists only the options that differ from the defaults of `RunConfig`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnnak.errors import FileFormatError, OptionError
from gnnak.graphs.readers.files import read_bytes
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.config.safe_yaml import (
    MAX_CHARACTERS,
    InvalidYamlError,
    parse_yaml,
)
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

    def __post_init__(self) -> None:
        check_count("runs", self.runs, least=1)

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
        name: One of `experiment_names`, or the path of a YAML file.

    Raises:
        OptionError: If there is no experiment of this name, or if the file has an
            unknown option or an invalid value.
        FileFormatError: If the content of the file is not a YAML mapping.
    """
    path = CONFIGS / f"{name}.yaml"
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
    else:
        check_known("experiment", name, experiment_names(), ", or a YAML file")
    options = dict(read_yaml(path))
    names = Counter(_option_names(options))
    for name, times in names.items():
        if times > 1:
            raise OptionError(f"{path.name}: {name} is set twice; remove one of both.")
    runs = options.pop("runs", 1)
    try:
        return Experiment(path.stem, change(RunConfig(), options), runs)
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

"""Experiments by name: the YAML files that say what differs from the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gnnak.errors import FileFormatError, OptionError
from gnnak.graphs.readers.files import read_bytes
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.typing import check_count, check_known

CONFIGS = Path(__file__).parents[2] / "configs"


@dataclass(frozen=True)
class Experiment:
    """A data set with the settings that the paper's runs on it share."""

    name: str
    """What it goes by: the name of its file, without the ending."""
    config: RunConfig = field(default_factory=RunConfig)
    """The settings."""
    runs: int = 1
    """How many seeds (0, 1, ...) a table cell is the mean of."""

    def __post_init__(self) -> None:
        check_count("runs", self.runs, least=1)


def experiment_names() -> list[str]:
    """The experiments that come with the package.

    >>> "zinc" in experiment_names()
    True
    """
    return sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def load_experiment(name: str) -> Experiment:
    """Read an experiment: one of those that come along, or a YAML file of one's own.

    Raises:
        OptionError: For an unknown name or option, naming the nearest.
        FileFormatError: If the file is no YAML mapping.
    """
    path = CONFIGS / f"{name}.yaml"
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
    else:
        check_known("experiment", name, experiment_names(), ", or a YAML file")
    options = dict(read_yaml(path))
    runs = options.pop("runs", 1)
    try:
        return Experiment(path.stem, change(RunConfig(), options), runs)
    except OptionError as error:
        raise OptionError(f"{path.name}: {error}") from error


def read_yaml(path: Path) -> Mapping[str, Any]:
    """The mapping that a YAML file holds.

    Raises:
        FileFormatError: If it holds anything else.
    """
    text = read_bytes(path)
    try:
        content = yaml.safe_load(text.decode("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where else ""
        raise FileFormatError(f"{path}{line}: not YAML; mend the file.") from error
    if not isinstance(content, Mapping):
        raise FileFormatError(f"{path}: holds no mapping; give lines of key: value.")
    return content

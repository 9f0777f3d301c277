"""Experiments: YAML files with the options of the runs on one data set."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gnnak.datasets.own.load import data_name
from gnnak.datasets.own.options import OwnData
from gnnak.datasets.own.read import is_one_graph, is_path
from gnnak.datasets.record import Protocol
from gnnak.errors import FileFormatError, GnnakError, OptionError, counted
from gnnak.graphs.readers.files import read_bytes
from gnnak.models.factory import check_read, parse_name, read_options
from gnnak.models.members import MEMBERS
from gnnak.training.config.options import (
    MAX_CHARACTERS,
    InvalidYamlError,
    change,
    full_name,
    parse_yaml,
    shown,
)
from gnnak.training.config.run_config import DataConfig, RunConfig
from gnnak.typing import check_count, check_known

CONFIG_SUFFIXES = (".yaml", ".yml")
EXTRA = ("runs", "members", "best")
"""Keys of a YAML file that are not options of a run."""
CONFIGS = Path(__file__).parents[2] / "configs"
"""The folder of the YAML files that are installed with the package."""


@dataclass(frozen=True)
class Experiment:
    """An experiment: the options of runs on one data set, and the number of seeds."""

    name: str
    """The name of the YAML file, without the suffix."""
    config: RunConfig = field(default_factory=RunConfig)
    runs: int = 1
    """Number of runs, with seeds 0, 1, ...; tables show the mean over these runs."""
    members: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Maps subgraph GNNs, such as "sswl+", to the options of their papers."""
    best: Mapping[str, Any] = field(default_factory=dict)
    """The model and options with the best known score; empty if none were measured."""

    def __post_init__(self) -> None:
        check_count("runs", self.runs, least=1)
        if not isinstance(self.members, Mapping):
            raise OptionError(f"members is {shown(self.members)}; give name: options.")
        if not isinstance(self.best, Mapping):
            raise OptionError(f"best is {shown(self.best)}; give options.")
        change(self.config, self.best)
        for member, options in self.members.items():
            check_known("subgraph GNN", member, MEMBERS)
            if not isinstance(options, Mapping):
                raise OptionError(
                    f"members.{member} is {shown(options)}; give options, such as "
                    "model: {channels: 96}."
                )
            change(self.config, options)

    def config_for(self, model: str | None = None) -> RunConfig:
        """Return the config for a model, with the options of the model's paper."""
        if model is None:
            return self.config
        options = self.members.get(parse_name(model).member or "", {})
        return change(self.config, {"model.name": model, **options})

    def settings(self, config: RunConfig) -> list[str]:
        """Return `--set` arguments that turn this experiment's config into `config`."""
        start, own = flat(self.config.to_dict()), read_only(config)
        changed = {key: own[key] for key in own if own[key] != start[key]}
        return [f"{key}={json.dumps(value)}" for key, value in changed.items()]


def experiment_names() -> list[str]:
    return sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def load_experiment(name: str) -> Experiment:
    """Read an experiment by name (case is ignored) or by the path of a YAML file."""
    if name.lower() in experiment_names():
        name = name.lower()
    path = CONFIGS / f"{name}.yaml"
    if name.endswith(CONFIG_SUFFIXES):
        path = Path(name)
    else:
        more = ", or the path of a YAML file or of your own data"
        check_known("data set or file", name, experiment_names(), more)
    options = dict(read_yaml(path))
    extra: dict[str, Any] = {k: options.pop(k) for k in EXTRA if k in options}
    try:
        options = full_names(options)
        for option, times in Counter(name for name, _ in _pairs(options)).items():
            if times > 1:
                raise OptionError(f"{option} is set twice; remove one of both.")
        return Experiment(path.stem, change(RunConfig(), options), **extra)
    except OptionError as error:
        raise OptionError(f"{path.name}: {error}") from error


def read_yaml(path: Path) -> Mapping[str, Any]:
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


def flat(options: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten nested mappings: `{"a": {"b": 1}}` becomes `{"a.b": 1}`."""
    return dict(_pairs(options))


def _pairs(options: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from _pairs(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def read_only(config: RunConfig) -> dict[str, Any]:
    """Return a run's options by name, without those that its model ignores."""
    read = {f"model.{name}" for name in read_options(config.model)}
    options = flat(config.to_dict()).items()
    return {k: v for k, v in options if k in read or not k.startswith("model.")}


def stopped_config(folder: Path) -> RunConfig | None:
    """Return the config of the run in a folder; None if this version cannot read it."""
    try:
        return change(RunConfig(), read_yaml(folder / "config.yaml"))
    except GnnakError:
        return None


def other_options(
    ours: RunConfig, theirs: RunConfig, ignored: Sequence[str] = ()
) -> dict[str, str]:
    """Map each option that differs to a text "KEY=THEIRS instead of OURS"."""
    if ours.hash() == theirs.hash():
        return {}
    here, there = flat(asdict(ours)), flat(asdict(theirs))
    if all(each["data.seed"] == each["train.seed"] for each in (here, there)):
        ignored = (*ignored, "data.seed")
    return {
        key: f"{key}={shown(there[key])} instead of {shown(here[key])}"
        for key in sorted(here)
        if here[key] != there[key] and key not in ignored
    }


def list_options(options: Mapping[str, str], most: int = 5) -> str:
    """Join the first `most` texts of `other_options`, and count the others."""
    texts, more = list(options.values())[:most], len(options) - most
    if more > 0:
        texts.append(counted(more, "more option"))
    return " and ".join([", ".join(texts[:-1]), *texts[-1:]] if texts[1:] else texts)


def full_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Replace short names of options, such as `lr` and `epochs`, by full names."""
    every = list(flat(asdict(RunConfig())))
    return {
        key if isinstance(value, Mapping) else full_name(str(key), every): value
        for key, value in options.items()
    }


DEFAULTS: dict[str, Any] = {
    "model.num_layers": 3,
    "model.channels": 64,
    "train.epochs": 60,
    "train.early_stop": 20,
    "train.batch_size": 32,
    "train.step": 15,
}
"""Options for the user's own data: a small network, trained in minutes on a CPU."""


ONE_GRAPH: dict[str, Any] = {
    "model.num_layers": 3,
    "model.channels": 64,
    "model.subgraphs.num_hops": 1,
    "model.reduce": "mean",
    "model.dropout": 0.2,
    "train.epochs": 300,
    "train.early_stop": 100,
    "train.batch_size": None,
    "train.learning_rate": 0.01,
    "train.schedule": "cosine",
}
"""Default options if the user's own data are one graph: full-batch training."""


def own_config(
    own: OwnData,
    seed: int,
    options: Mapping[str, Any],
    fold: int | None = None,
    one_graph: bool = False,
    several_models: bool = False,
) -> RunConfig:
    """Return the config of a run on the user's own data: defaults, then `options`."""
    protocol: Protocol = "split" if own.folds is None else "held-out"
    data = DataConfig(data_name(own.path), protocol=protocol, own=own)
    named = {"train.seed": seed, "data.seed": seed, "data.fold": fold}
    usual = (ONE_GRAPH if one_graph else DEFAULTS) | named
    options = full_names(options)
    config = change(change(RunConfig(data), usual), options)
    if not several_models:
        check_read(config.model, flat(options))
    return config


def find_config(
    data: str,
    options: Mapping[str, Any],
    own: Mapping[str, Any],
    several_models: bool = False,
    best: bool = False,
) -> tuple[str, RunConfig]:
    """Return the name of an experiment and the config of its runs.

    `data` is the name of a data set, or the path of a YAML file or the user's own data.
    `own` has fields of `OwnData`; `options` has all other options. An option that the
    model ignores raises `OptionError`, unless `several_models` is True. With `best`,
    the defaults are the settings with the best known score.
    """
    options = full_names(options)
    if best:
        options = _best_options(data, options)
    if is_own(data):
        seed = options.get("train.seed", 0)
        whole = OwnData(path=data, **own)
        one_graph = is_one_graph(data)
        config = own_config(whole, seed, options, None, one_graph, several_models)
        return config.data.name, config
    experiment = load_experiment(data)
    name, given = experiment.name, dict(own)
    targets = given.pop("targets", ())
    if targets:
        names = [name.strip() for each in targets for name in each.split(",")]
        options["data.target"] = ",".join(names)
    options |= {f"data.own.{key}": value for key, value in given.items()}
    names = [key[9:] for key in sorted(options) if key.startswith("data.own.")]
    if wrong := [name for name in names if name != "graphs"]:
        raise OptionError(
            f"{', '.join(wrong)} can only be set for your own data; {name} is a data "
            "set of gnnak."
        )
    config = change(experiment.config_for(options.get("model.name")), options)
    if not several_models:
        check_read(config.model, flat(options))
    return name, config


def _best_options(data: str, options: Mapping[str, Any]) -> dict[str, Any]:
    if "model.name" in options:
        raise OptionError("--best also chooses the model; leave out --model.")
    best = {} if is_own(data) else flat(load_experiment(data).best)
    if not best:
        raise OptionError(
            f"there are no best settings for {data}, only for zinc; leave out --best."
        )
    return best | dict(options)


def is_own(data: str) -> bool:
    """Return whether `data` is a path of own data, not a data set or a YAML file."""
    text = data.lower()
    if text.endswith(CONFIG_SUFFIXES) or text in experiment_names():
        return False
    return is_path(data)

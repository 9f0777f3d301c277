"""Work of `gnnak train`: find the options of a run, and print its scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from gnnak.cli.importing import import_own
from gnnak.datasets.own.options import OwnData
from gnnak.datasets.own.read import is_path
from gnnak.errors import OptionError
from gnnak.graphs.readers.files import format_suffix
from gnnak.models.bases import find_class, is_own_name, module_of
from gnnak.models.factory import normal_name, parse_name
from gnnak.training.config.experiment import (
    experiment_names,
    load_experiment,
    own_config,
)
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.launch import Places
from gnnak.training.records.results import Record

CONFIG_SUFFIXES = (".yaml", ".yml")


def find_config(
    data: str, options: Mapping[str, Any], own: Mapping[str, Any]
) -> tuple[str, RunConfig]:
    """Return the name of an experiment and the options of its runs.

    Args:
        data: The name of a data set, a YAML file, or the path of own data.
        options: Options by name, such as `train.epochs`.
        own: Options of `OwnData` by name.

    Raises:
        OptionError: If there is no such data set or file, or an option does not fit.
    """
    given = {name: value for name, value in own.items() if value}
    if is_own(data):
        path = OwnData(path=data, **given)
        fold, seed = options.get("data.fold"), options.get("train.seed", 0)
        rest = {key: v for key, v in options.items() if key != "data.fold"}
        config = own_config(path, seed, rest, fold)
        return config.data.name, config
    experiment = load_experiment(data)
    name = experiment.name
    targets = given.pop("targets", ())
    if len(targets) > 1:
        raise OptionError(
            f"--target is given {len(targets)} times; {name} has one target per run."
        )
    options = dict(options)
    if targets:
        options["data.target"] = targets[0]
    if "graphs" in given:
        options["data.own.graphs"] = given.pop("graphs")
    if given:
        raise OptionError(
            f"{', '.join(sorted(given))} can only be set for your own data; {name} is "
            "a data set of gnnak."
        )
    config = experiment.config_for(options.get("model.name"))
    return experiment.name, change(config, options)


def find_model(name: str) -> str:
    """Return the name of a model as configs have it; import a class of the user.

    Raises:
        OptionError: If there is no such model, module or class.
    """
    name = normal_name(name)
    base = parse_name(name).base
    if is_own_name(base):
        import_own(module_of(base))
        find_class(base)
    return name


def is_own(data: str) -> bool:
    """Return whether `data` is the path of own data, not a data set or a YAML file."""
    text = data.lower()
    if text.endswith(CONFIG_SUFFIXES) or text in experiment_names():
        return False
    return is_path(data)


def print_scores(
    records: list[Record], config: RunConfig, places: Places, as_json: bool
) -> None:
    """Print a table with the scores of the runs, or their records as JSON."""
    if as_json:
        for record in records:
            typer.echo(json.dumps(record))
        return
    metric = records[0]["metric"]
    table = Table("run", f"validation {metric}", f"test {metric}", "epoch", "s/epoch")
    table.add_column("weights", justify="right")
    for record in records:
        fold = "" if record["fold"] is None else f", fold {record['fold']}"
        scores, seconds = record["scores"], record["seconds"]
        table.add_row(
            f"{config.model.name}, seed {record['seed']}{fold}",
            _shown(scores["validation"]),
            _shown(scores["test"]),
            f"{record['best_epoch'] + 1} of {record['epochs']}",
            f"{_per_epoch(seconds):.2f}",
            f"{record['parameters']:,}",
        )
    Console().print(table)
    for reason in {r["undefined"]["test"]: 0 for r in records if "undefined" in r}:
        typer.echo(f"test {metric} is undefined: {reason}.")
    if config.data.own.path is not None and len(records) == 1:
        best = places.of(config, config.data.name) / "best.ckpt"
        data = Path(config.data.own.path)
        command = (
            f"gnnak predict {quote(str(best))} NEW{format_suffix(data)} -o out.csv"
        )
        typer.echo(f"predict for new data: {command}", err=True)


def _shown(score: float | None) -> str:
    return "undefined" if score is None else f"{score:.4f}"


def _per_epoch(seconds: dict[str, Any]) -> float:
    return sum(seconds.get(phase, 0.0) for phase in ("data", "train", "evaluation"))

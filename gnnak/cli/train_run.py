"""The work of `gnnak train` and `gnnak demo`: options of a run, training, plots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import Any

import typer
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from gnnak.cli.options import import_own
from gnnak.datasets import load_dataset
from gnnak.datasets.own.options import OwnData
from gnnak.datasets.own.read import is_path
from gnnak.errors import OptionError
from gnnak.graphs.named import four_regular_pair
from gnnak.graphs.readers.files import format_suffix
from gnnak.models.bases import find_class, is_own_name, module_of
from gnnak.models.factory import normal_name, parse_name
from gnnak.report.pictures import plot_curves, plot_egonet, plot_graph, save
from gnnak.training.config.experiment import (
    experiment_names,
    load_experiment,
    own_config,
)
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.launch import Places
from gnnak.training.processes.machine import Machine
from gnnak.training.records.results import Record
from gnnak.training.run import run

CONFIG_SUFFIXES = (".yaml", ".yml")


def find_config(
    data: str, options: Mapping[str, Any], own: Mapping[str, Any]
) -> tuple[str, RunConfig]:
    """Return the name of an experiment and the options of its runs."""
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
    """Return the name of a model as configs have it; import a class of the user."""
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


MODELS = ("gin", "gin-ak+")


def train_models(epochs: int, seed: int) -> dict[str, Record]:
    """Train GIN and GIN-AK+ on the data set `triangles`, as `gnnak train` does.

    The checkpoints are written to a temporary folder.
    """
    dataset = load_dataset("triangles", seed=seed)
    options = {"train.epochs": epochs, "train.seed": seed, "data.seed": seed}
    config = change(load_experiment("triangles").config, options)
    records = {}
    with TemporaryDirectory() as folder:
        for name in MODELS:
            records[name] = run(
                change(config, {"model.name": name}),
                dataset,
                Path(folder) / name,
                Machine("cpu"),
                console=Console(stderr=True),
            )
    return records


def plot_demo(curves: dict[str, list[float]], path: Path) -> None:
    """Plot two 4-regular graphs, an egonet of each, and the learning curves."""
    figure = Figure(figsize=(11, 6.2), layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=(1, 1, 1.5))
    for row, (letter, graph) in enumerate(zip("AB", four_regular_pair(), strict=True)):
        left, right = (figure.add_subplot(grid[row, column]) for column in (0, 1))
        plot_graph(left, graph, 0, 1, f"4-regular graph {letter}")
        plot_egonet(
            right, graph, 0, 1, f"rooted subgraph of node 0 in {letter}, by hop"
        )
    last = figure.add_subplot(grid[:, 2])
    plot_curves(last, curves, "share of validation graphs right", "has it a triangle?")
    last.set_ylim(0.0, 1.04)
    save(figure, path)

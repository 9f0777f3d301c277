"""`gnnak train`: train a model on a data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table

from gnnak.cli.options import (
    AcceleratorOption,
    DataDir,
    Experiment,
    Json,
    MaxCopies,
    Plain,
    Recompute,
    ResultsFolder,
    RunsFolder,
    Settings,
)
from gnnak.training.config.options import change, parse_settings
from gnnak.training.processes.stopping import stoppable_at_once

if TYPE_CHECKING:
    from gnnak.training.records.results import Record

EXAMPLES = """
Examples:

    gnnak train zinc --model gin-ak+ --seed 0

    gnnak train counting --target star --set train.epochs=50

    gnnak train mutag --model gin --fold 0

    gnnak train zinc --devices 4 --resume
"""


def train(
    experiment: Experiment,
    model: Annotated[
        str | None,
        typer.Option(
            help="gin, gcn, pna*, ...; suffixes: -ak, -ak+, -ak+-s; or sswl+-gin, ...",
            show_default="gin-ak+",
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Target, for data sets that have several.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="split, published or held-out.")
    ] = None,
    fold: Annotated[
        int | None, typer.Option(min=0, help="Run this fold only, instead of all.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of weights and batches.", show_default="0"),
    ] = None,
    settings: Settings = None,
    data_dir: DataDir = None,
    runs: RunsFolder = Path("runs"),
    results: ResultsFolder = Path("results"),
    accelerator: AcceleratorOption = "auto",
    devices: Annotated[
        int, typer.Option(min=1, help="Number of GPUs, or of processes on the CPU.")
    ] = 1,
    num_nodes: Annotated[
        int, typer.Option(min=1, help="Number of machines to train on.")
    ] = 1,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Bitwise reproducible, but slower.")
    ] = False,
    recompute: Recompute = False,
    max_copies: MaxCopies = None,
    plain: Plain = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also log for TensorBoard.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue runs that were not finished.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Print the config as YAML and exit.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a model on a data set, test it, and append the scores to the results."""
    with stoppable_at_once():
        from lightning.fabric.utilities.rank_zero import rank_zero_only

        from gnnak.training.config.experiment import load_experiment
        from gnnak.training.launch import Places, run_experiment
        from gnnak.training.processes.machine import Machine

    found = load_experiment(experiment)
    named = {
        "model.name": model,
        "train.seed": seed,
        "data.target": target,
        "data.protocol": protocol,
        "data.fold": fold,
    }
    options = {key: value for key, value in named.items() if value is not None}
    config = change(found.config, options | parse_settings(settings or []))
    if show:
        typer.echo(yaml.safe_dump(config.to_dict(), sort_keys=False), nl=False)
        return
    records = run_experiment(
        [config],
        found.name,
        Places(data_dir, runs, results),
        Machine(
            accelerator,  # type: ignore[arg-type]
            devices,
            num_nodes,
            deterministic,
            tensorboard=tensorboard,
            recompute=recompute,
            max_copies=max_copies,
            fast=not plain,
        ),
        resume,
        Console(stderr=True),
    )
    rank_zero_only(_print)(records, config.model.name, as_json)


def _print(records: list[Record], model: str, as_json: bool) -> None:
    if as_json:
        for record in records:
            typer.echo(json.dumps(record))
        return
    metric = records[0]["metric"]
    table = Table("run", f"validation {metric}", f"test {metric}", "epoch", "s/epoch")
    for record in records:
        fold = "" if record["fold"] is None else f", fold {record['fold']}"
        scores, seconds = record["scores"], record["seconds"]
        table.add_row(
            f"{model}, seed {record['seed']}{fold}",
            f"{scores['validation']:.4f}",
            "undefined" if scores["test"] is None else f"{scores['test']:.4f}",
            f"{record['best_epoch'] + 1} of {record['epochs']}",
            f"{_per_epoch(seconds):.2f}",
        )
    Console().print(table)
    for reason in {r["undefined"]["test"]: 0 for r in records if "undefined" in r}:
        typer.echo(f"test {metric} is undefined: {reason}.")


def _per_epoch(seconds: dict[str, Any]) -> float:
    return sum(seconds.get(phase, 0.0) for phase in ("data", "train", "evaluation"))

"""`gnnak train`: train a model on a data set or on your own data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer
import yaml
from rich.console import Console
from rich.table import Table

from gnnak.cli.names import examples, flag, option
from gnnak.cli.options import (
    JSON,
    RunOptions,
    TrainingMachine,
    expanded,
    next_step,
    shown_score,
)
from gnnak.errors import OptionError
from gnnak.training.processes.stopping import stoppable_at_once

if TYPE_CHECKING:
    from gnnak.training.config.run_config import RunConfig
    from gnnak.training.launch import Places
    from gnnak.training.records.results import Record

EXAMPLES = examples(
    "gnnak train zinc --model gin-ak+ --seed 0",
    "gnnak train zinc --best",
    "gnnak train molecules.csv --smiles smiles --target logp --skip-bad",
    "gnnak train graphs.g6 --targets labels.csv --metric roc-auc --folds 5",
    "gnnak train counting --target star --epochs 50 --channels 64",
    "gnnak train mutag --model gin-ak+ --num-hops 2 --fold 0",
    "gnnak train zinc --model my_layers:MyConv-ak+ --graphs 1000",
    "gnnak train zinc --devices 4 --resume",
    "gnnak train zinc --ray 8 --resume",
    "gnnak train minesweeper --model gcn-ak+ --fold 0",
    "gnnak train graph.pt --target y --model sage-ak+ --max-copies 100000",
)


@expanded
def train(
    chosen: RunOptions,
    device: TrainingMachine,
    devices: int = typer.Option(
        1, min=1, help="Number of GPUs, or of processes on the CPU."
    ),
    num_nodes: int = typer.Option(1, min=1, help="Number of machines to train on."),
    ray: int | None = option(
        min=1,
        metavar="N",
        help="Train on N GPUs of a Ray cluster (extra `ray`), or in N processes if it "
        "has no GPU. The cluster is that of $RAY_ADDRESS, or else of this machine. If "
        "a node dies, others go on from the last checkpoint.",
        show_default="this machine, without Ray",
    ),
    deterministic: bool = flag(
        "--deterministic", help="Bitwise reproducible, but slower."
    ),
    tensorboard: bool = flag("--tensorboard", help="Also log for TensorBoard."),
    resume: bool = flag("--resume", help="Continue runs that were not finished."),
    show: bool = flag("--show", help="Print the config as YAML and exit."),
    as_json: bool = JSON,
) -> None:
    """Train a model on a data set or your own data, test it, and record the scores."""
    with stoppable_at_once():
        from lightning.fabric.utilities.rank_zero import rank_zero_only

        from gnnak.training.launch import run_experiment
        from gnnak.training.schedule.group import train_on_cluster

    name, config = chosen.config()
    places = chosen.places(config)
    if show:
        typer.echo(yaml.safe_dump(config.to_dict(), sort_keys=False), nl=False)
        return
    if ray is not None and (devices, num_nodes) != (1, 1):
        told = f"--ray {ray} is the number of processes on the whole cluster"
        raise OptionError(f"{told}; leave out --devices and --num-nodes.")
    machine = device.machine(
        devices=devices,
        num_nodes=num_nodes if ray is None else ray,
        deterministic=deterministic,
        tensorboard=tensorboard,
    )
    console = Console(stderr=True)
    if ray is None:
        records = run_experiment([config], name, places, machine, resume, console)
    else:
        records = train_on_cluster(config, name, places, machine, resume, console)
    rank_zero_only(_print_scores)(records, config, places, as_json)


def _print_scores(
    records: list[Record], config: RunConfig, places: Places, as_json: bool
) -> None:
    if as_json:
        for record in records:
            typer.echo(json.dumps(record))
        return
    metric = records[0]["metric"]
    table = Table("run", f"validation {metric}", f"test {metric}", "epoch", "s/epoch")
    table.add_column("weights", justify="right")
    for record in records:
        fold = "" if record["fold"] is None else f", fold {record['fold']}"
        scores, taken = record["scores"], record["seconds"]
        phases = (taken.get(phase, 0.0) for phase in ("data", "train", "evaluation"))
        table.add_row(
            f"{config.model.name}, seed {record['seed']}{fold}",
            shown_score(scores["validation"]),
            shown_score(scores["test"]),
            f"{record['best_epoch'] + 1} of {record['epochs']}",
            f"{sum(phases):.2f}",
            f"{record['parameters']:,}",
        )
    Console().print(table)
    if found := [record for record in records if "by_target" in record]:
        Console().print(_table_by_target(found))
    for reason in {r["undefined"]["test"]: 0 for r in records if "undefined" in r}:
        typer.echo(f"test {metric} is undefined: {reason}.")
    if config.data.own.path is not None and len(records) == 1:
        best = places.of(config, config.data.name) / "best.ckpt"
        typer.echo(next_step(best, config), err=True)


def _table_by_target(records: list[Record]) -> Table:
    """Return a table of the test errors of each target, with a column per run."""
    table = Table(f"test {records[0]['metric'].removeprefix('std-')}")
    for record in records:
        fold = "" if record["fold"] is None else f", fold {record['fold']}"
        table.add_column(f"seed {record['seed']}{fold}", justify="right")
    for name in records[0]["by_target"]:
        errors = (record["by_target"][name] for record in records)
        table.add_row(name, *map(shown_score, errors))
    return table

"""`gnnak train`: train a model on a data set or on your own data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import yaml
from rich.console import Console
from rich.table import Table

from gnnak.cli.options import (
    AcceleratorOption,
    BatchSize,
    Channels,
    DataDir,
    EdgeAttr,
    Epochs,
    Experiment,
    Fold,
    Folds,
    Graphs,
    Json,
    Labels,
    Layers,
    LearningRate,
    MaxCopies,
    MetricOption,
    Model,
    NodeAttr,
    NumHops,
    Plain,
    ProtocolOption,
    Recompute,
    RecordsFolder,
    RunsFolder,
    Seed,
    Settings,
    SkipBad,
    Smiles,
    Split,
    Target,
    TaskOption,
    TestFile,
    ValidationFile,
    find_model,
    given,
    make_machine,
    next_step,
    own_values,
)
from gnnak.training.config.options import parse_settings
from gnnak.training.processes.stopping import stoppable_at_once

if TYPE_CHECKING:
    from gnnak.training.config.run_config import RunConfig
    from gnnak.training.launch import Places
    from gnnak.training.records.results import Record

EXAMPLES = """
Examples:

    gnnak train zinc --model gin-ak+ --seed 0

    gnnak train molecules.csv --smiles smiles --target logp --skip-bad

    gnnak train graphs.g6 --targets labels.csv --metric roc-auc --folds 5

    gnnak train counting --target star --epochs 50 --channels 64

    gnnak train mutag --model gin-ak+ --num-hops 2 --fold 0

    gnnak train zinc --model my_layers:MyConv-ak+ --graphs 1000

    gnnak train zinc --devices 4 --resume

    gnnak train minesweeper --model gcn-ak+ --fold 0

    gnnak train graph.pt --target y --model sage-ak+ --max-copies 100000
"""


def train(
    experiment: Experiment,
    model: Model = None,
    target: Target = None,
    smiles: Smiles = None,
    targets: Labels = None,
    task: TaskOption = None,
    metric: MetricOption = None,
    split: Split = None,
    validation: ValidationFile = None,
    test: TestFile = None,
    folds: Folds = None,
    skip_bad: SkipBad = False,
    node_attr: NodeAttr = None,
    edge_attr: EdgeAttr = None,
    graphs: Graphs = None,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    lr: LearningRate = None,
    channels: Channels = None,
    layers: Layers = None,
    num_hops: NumHops = None,
    protocol: ProtocolOption = None,
    fold: Fold = None,
    seed: Seed = None,
    settings: Settings = None,
    data_dir: DataDir = None,
    runs: RunsFolder = Path("runs"),
    results: RecordsFolder = None,
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
    """Train a model on a data set or your own data, test it, and record the scores."""
    with stoppable_at_once():
        from lightning.fabric.utilities.rank_zero import rank_zero_only

        from gnnak.training.config.experiment import find_config
        from gnnak.training.launch import Places, run_experiment

    options = given(
        model=model and find_model(model),
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        channels=channels,
        layers=layers,
        num_hops=num_hops,
        protocol=protocol,
        fold=fold,
        seed=seed,
    )
    own = own_values(
        smiles=smiles,
        targets=target,
        labels=targets,
        task=task,
        metric=metric,
        split=split,
        validation=validation,
        test=test,
        folds=folds,
        skip_bad=skip_bad,
        node_attr=node_attr,
        edge_attr=edge_attr,
        graphs=graphs,
    )
    options |= parse_settings(settings or [])
    name, config = find_config(experiment, options, own)
    places = Places.of_run(config, data_dir, runs, results)
    if show:
        typer.echo(yaml.safe_dump(config.to_dict(), sort_keys=False), nl=False)
        return
    machine = make_machine(
        accelerator,
        max_copies,
        plain,
        devices=devices,
        num_nodes=num_nodes,
        deterministic=deterministic,
        tensorboard=tensorboard,
        recompute=recompute,
    )
    console = Console(stderr=True)
    records = run_experiment([config], name, places, machine, resume, console)
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
            _shown(scores["validation"]),
            _shown(scores["test"]),
            f"{record['best_epoch'] + 1} of {record['epochs']}",
            f"{sum(phases):.2f}",
            f"{record['parameters']:,}",
        )
    Console().print(table)
    for reason in {r["undefined"]["test"]: 0 for r in records if "undefined" in r}:
        typer.echo(f"test {metric} is undefined: {reason}.")
    if config.data.own.path is not None and len(records) == 1:
        best = places.of(config, config.data.name) / "best.ckpt"
        typer.echo(next_step(best, config), err=True)


def _shown(score: float | None) -> str:
    return "undefined" if score is None else f"{score:.4f}"

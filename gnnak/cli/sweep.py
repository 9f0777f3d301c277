"""`gnnak sweep`: train a model with many combinations of options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from gnnak.cli.names import check_over
from gnnak.cli.options import (
    AcceleratorOption,
    BatchSize,
    Channels,
    DataDir,
    DryRun,
    EdgeAttr,
    Epochs,
    Experiment,
    Fold,
    Folds,
    Graphs,
    Jobs,
    Json,
    Labels,
    Layers,
    LearningRate,
    Long,
    MaxCopies,
    MetricOption,
    Minutes,
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
    from gnnak.training.schedule.sweep import SweepRow

EXAMPLES = """
Examples:

    gnnak sweep zinc --over model=gin,gin-ak+ --seeds 3

    gnnak sweep mutag --over channels=32,64 --over lr=1e-2,1e-3 --epochs 50

    gnnak sweep zinc --over num_hops=1,2,3 --jobs 8 --minutes 25

    gnnak sweep counting --over target=triangle,star --dry-run

    gnnak sweep molecules.csv --target logp --over train.clip=1,null
"""


def sweep(
    experiment: Experiment,
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=V1,V2,...",
            callback=check_over,
            help="Values of one option, such as num_hops, lr or any key of --set; all "
            "combinations are run. May be repeated.",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Number of seeds for each combination.")
    ] = 1,
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
    jobs: Jobs = 1,
    minutes: Minutes = None,
    long: Long = False,
    dry_run: DryRun = False,
    data_dir: DataDir = None,
    runs: RunsFolder = Path("runs"),
    results: RecordsFolder = None,
    accelerator: AcceleratorOption = "auto",
    recompute: Recompute = False,
    max_copies: MaxCopies = None,
    plain: Plain = False,
    as_json: Json = False,
) -> None:
    """Train a model with all combinations of some options, and compare the scores.

    Combinations that already have a record are not trained again, and stopped runs are
    resumed: give the same command to go on. On data sets with folds, every combination
    is trained on all folds.
    """
    with stoppable_at_once():
        from gnnak.training.config.experiment import find_config
        from gnnak.training.launch import Places
        from gnnak.training.schedule.schedule import Schedule
        from gnnak.training.schedule.sweep import (
            check_values,
            parse_values,
            plan_sweep,
            sweep_rows,
        )

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
    values = parse_values(over or [])
    check_values(values, options)
    several = not values.keys().isdisjoint({"model.name", "model.subgraphs.kind"})
    name, config = find_config(experiment, options, own, several)
    places = Places.of_run(config, data_dir, runs, results)
    machine = make_machine(accelerator, max_copies, plain, recompute=recompute)
    schedule = Schedule(places, machine, jobs, minutes, long)
    if "model.name" in values:
        values["model.name"] = [find_model(each) for each in values["model.name"]]
    combinations = plan_sweep(name, config, values, seeds, places)
    missing = [job for each in combinations for job in each.missing]
    if dry_run:
        schedule.show(missing, Console())
        return
    failed = schedule.run(missing, Console(stderr=True)).failed
    if not missing:
        typer.echo("all runs were already recorded; none was trained.", err=True)
    rows = sweep_rows(name, combinations, places)
    if as_json:
        shown = [row.as_dict() for row in rows]
        typer.echo(json.dumps({"rows": shown, "failed": [job.title for job in failed]}))
    else:
        _print(rows, list(values))
        _print_best(min(rows, key=lambda row: row.rank), config)
    if failed:
        raise typer.Exit(1)


def _print(rows: list[SweepRow], names: list[str]) -> None:
    metric = next((row.metric for row in rows if row.metric), "score")
    numbers = (f"validation {metric}", f"test {metric}", "s/epoch", "peak MB", "runs")
    table = Table(*(name.rpartition(".")[2] for name in names), *numbers)
    best = min(rows, key=lambda row: row.rank)
    for row in rows:
        style = "bold" if row is best and row.metric else None
        values = [str(row.values[name]) for name in names]
        table.add_row(*values, *row.texts, style=style)
    Console().print(table)


def _print_best(row: SweepRow, config: RunConfig) -> None:
    if not row.metric:
        return
    words = [f"{key.rpartition('.')[2]}={value}" for key, value in row.values.items()]
    told = f"best: {', '.join(words) or config.model.name}"
    if row.checkpoint is not None:
        told += f"; {next_step(Path(row.checkpoint), config)}"
    typer.echo(told, err=True)

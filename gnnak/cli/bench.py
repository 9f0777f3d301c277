"""`gnnak bench`: measure time and memory of a training epoch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from gnnak.cli.names import GROWING
from gnnak.cli.options import (
    AcceleratorOption,
    BatchSize,
    Channels,
    DataDir,
    EdgeAttr,
    Experiment,
    Fold,
    Folds,
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
    ResultsFolder,
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
    own_values,
)
from gnnak.errors import OptionError
from gnnak.training.config.options import parse_settings
from gnnak.training.processes.stopping import stoppable_at_once
from gnnak.typing import check_choice

if TYPE_CHECKING:
    from gnnak.training.records.results import Record

EXAMPLES = """
Examples:

    gnnak bench zinc --model gin-ak+ --compare --profile

    gnnak bench cifar10 --graphs 1536 --record

    gnnak bench molecules.csv --target logp

    gnnak bench zinc --grow channels --graphs 1280 --json
"""


def bench(
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
    graphs: Annotated[
        int | None,
        typer.Option(
            min=2, help="Train on this many graphs; times are scaled to all graphs."
        ),
    ] = None,
    epochs: Annotated[
        int, typer.Option(min=1, help="Number of epochs to measure.")
    ] = 3,
    batch_size: BatchSize = None,
    lr: LearningRate = None,
    channels: Channels = None,
    layers: Layers = None,
    num_hops: NumHops = None,
    protocol: ProtocolOption = None,
    fold: Fold = None,
    seed: Seed = None,
    plain: Plain = False,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Measure with --plain and in bf16, too."),
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="On a GPU: list the slowest kernels.")
    ] = False,
    evaluation: Annotated[
        bool, typer.Option("--evaluation", help="Also measure the validation pass.")
    ] = False,
    growing: Annotated[
        str | None,
        typer.Option(
            "--grow",
            help=f"Repeat for growing values of one of: {', '.join(GROWING)}.",
        ),
    ] = None,
    settings: Settings = None,
    data_dir: DataDir = None,
    accelerator: AcceleratorOption = "auto",
    recompute: Recompute = False,
    max_copies: MaxCopies = None,
    record: Annotated[
        bool, typer.Option("--record", help="Append the records to `bench.jsonl`.")
    ] = False,
    results: ResultsFolder = Path("results"),
    as_json: Json = False,
) -> None:
    """Train for a few epochs; print the time and memory of one epoch.

    The time of an epoch is the median over training epochs after a warm-up. The phases
    of a step are timed in extra steps that synchronise with the GPU after each phase.
    If training steps are captured as CUDA graphs, the phases therefore add up to more
    than the epoch.
    """
    if growing is not None:
        check_choice("--grow", growing, GROWING)
    if compare and (plain or growing is not None):
        raise OptionError("--compare measures both paths once; drop --plain or --grow.")
    with stoppable_at_once():
        from gnnak.training.config.experiment import find_config
        from gnnak.training.launch import Places
        from gnnak.training.measure.bench import BenchOptions, measure
        from gnnak.training.records.results import append_record, check_appendable
        from gnnak.training.run import run_title

    own = own_values(
        targets=target,
        smiles=smiles,
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
    )
    named = given(
        model=model and find_model(model),
        batch_size=batch_size,
        lr=lr,
        channels=channels,
        layers=layers,
        num_hops=num_hops,
        protocol=protocol,
        fold=fold,
        seed=seed,
    )
    _, config = find_config(experiment, named | parse_settings(settings or []), own)
    machine = make_machine(accelerator, max_copies, plain, recompute=recompute)
    options = BenchOptions(graphs, epochs, profile=profile, evaluation=evaluation)
    if record:
        check_appendable(results / "bench.jsonl")
    records, title = [], run_title(config)
    with Console(stderr=True).status(title) as status:

        def notify(words: str) -> None:
            status.update(f"{title}: {words}")

        for each in measure(
            config, Places(data_dir), machine, options, growing, compare, notify
        ):
            if record:
                append_record(results / "bench.jsonl", each)
            records.append(each)
    if as_json:
        for each in records:
            typer.echo(json.dumps(each))
        return
    console = Console(highlight=False)
    console.print(_costs_table(records))
    console.print(_footer(records[0]), soft_wrap=True)
    for each in records:
        if each["kernels"] is not None:
            console.print(kernels_table(each))


def _costs_table(records: Sequence[Record]) -> Table:
    first = records[0]
    data, model = (first["config"][part]["name"] for part in ("data", "model"))
    if first.get("what") == "nodes":
        data = "4-regular graphs"
    table = Table("", title=f"{data}, {model}, {first['device']}")
    for record in records:
        table.add_column(_column(record), justify="right", no_wrap=True)
    columns = [_cells(record) for record in records]
    for name in columns[0]:
        cells = [column[name] for column in columns]
        if any(cells):
            table.add_row(name, *cells)
    return table


def _cells(record: Record) -> dict[str, str]:
    """Map the title of each table row to the record's text, "" if not measured."""
    from gnnak.training.measure.meters import PHASES

    seconds, kernels = record["seconds"], record["kernels"] or {}
    phases = {f"  {name}, step by step": seconds.get(name) for name in PHASES}
    return {
        "seconds an epoch": f"{seconds['epoch']:.3f}",
        **{title: _optional(taken, ".3f") for title, taken in phases.items()},
        "seconds of evaluation": _optional(seconds.get("evaluation"), ".3f"),
        "graphs a second": f"{record['graphs_per_second']:,.0f}",
        "peak memory, MB": _optional(record["peak_memory_mb"], ",.0f"),
        "kernels' share": _optional(kernels.get("share"), ".0%"),
        "plain / fast": _optional(record["ratio"], ".2f"),
    }


def _footer(record: Record) -> str:
    """Return the line below the table: the number of weights, and cautions."""
    measured, total = record["graphs"], record["graphs_an_epoch"]
    line = f"{record['parameters']:,} weights"
    if measured != total:
        line += f"; scaled from {measured:,} to {total:,} graphs"
    if record["ratio"] is not None and record["accelerator"] != "cuda":
        line += "; without a GPU both paths are the same, and their ratio is noise"
    return line


def kernels_table(record: Record) -> Table:
    """Return a table of the GPU kernels that take the most time in a training step."""
    kernels = record["kernels"]
    table = Table("kernel", title=f"Kernels of a step, {_column(record)}")
    table.add_column("calls", justify="right")
    table.add_column("µs", justify="right")
    for kernel in kernels["top"]:
        name, calls = kernel["name"], kernel["calls"]
        table.add_row(name, f"{calls:g}", f"{kernel['microseconds']:,.0f}")
    others = kernels["microseconds"] - sum(k["microseconds"] for k in kernels["top"])
    left = kernels["calls"] - sum(k["calls"] for k in kernels["top"])
    table.add_row("all others", f"{left:g}", f"{others:,.0f}")
    return table


def _column(record: Record) -> str:
    """Return the title of a record's column, such as "fast, bf16" or "hops 2"."""
    if record["kind"] == "growth":
        return f"{record['what']} {record['value']}"
    precision = record["config"]["train"]["precision"]
    path = "fast" if record["fast"] else "plain"
    return path if precision == "32" else f"{path}, {precision}"


def _optional(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)

"""`gnnak bench`: measure time and memory of a training epoch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from gnnak.cli.names import GROWING, examples, flag, option
from gnnak.cli.options import (
    JSON,
    RESULTS,
    DataOptions,
    TrainingMachine,
    expanded,
    show,
)
from gnnak.errors import OptionError
from gnnak.training.processes.stopping import stoppable_at_once
from gnnak.typing import check_choice

if TYPE_CHECKING:
    from gnnak.training.records.results import Record

EXAMPLES = examples(
    "gnnak bench zinc --model gin-ak+ --compare --profile",
    "gnnak bench cifar10 --graphs 1536 --record",
    "gnnak bench molecules.csv --target logp",
    "gnnak bench zinc --grow channels --graphs 1280 --json",
)


@expanded
def bench(
    chosen: DataOptions,
    device: TrainingMachine,
    graphs: int | None = option(
        min=2,
        help="Train on this many graphs, or nodes of one graph; scale times to all.",
    ),
    epochs: int = typer.Option(3, min=1, help="Number of epochs to measure."),
    compare: bool = flag("--compare", help="Measure with --plain and in bf16, too."),
    profile: bool = flag("--profile", help="On a GPU: list the slowest kernels."),
    evaluation: bool = flag("--evaluation", help="Also measure the validation pass."),
    growing: str | None = option(
        "--grow", help=f"Repeat for growing values of one of: {', '.join(GROWING)}."
    ),
    record: bool = flag("--record", help="Append the records to `bench.jsonl`."),
    results: Path = RESULTS,
    as_json: bool = JSON,
) -> None:
    """Train for a few epochs; print the time and memory of one epoch.

    The time of an epoch is the median over training epochs after a warm-up. The phases
    of a step are timed in extra steps, which are never captured as CUDA graphs and
    synchronise with the GPU after each phase. If the steps of the epoch are captured,
    the phases add up to more time than the epoch.
    """
    if growing is not None:
        check_choice("--grow", growing, GROWING)
    if compare and (device.plain or growing is not None):
        raise OptionError("--compare measures both paths once; drop --plain or --grow.")
    with stoppable_at_once():
        from gnnak.training.launch import Places, find_dataset
        from gnnak.training.measure.bench import BenchOptions, measure
        from gnnak.training.records.results import append_record, check_appendable
        from gnnak.training.run import run_title

    _, config = chosen.config()
    machine = device.machine()
    if profile and not machine.is_gpu:
        typer.echo("warning: --profile needs a GPU; here it has no effect.", err=True)
    if record:
        check_appendable(results / "bench.jsonl")
    records, title = [], run_title(config)
    with Console(stderr=True).status(title) as status:

        def notify(words: str) -> None:
            status.update(f"{title}: {words}")

        options = BenchOptions(graphs, epochs, 1, profile, evaluation, notify)
        load = partial(find_dataset, config, Places(chosen.data_dir))
        for each in measure(config, load, machine, options, growing, compare):  # type: ignore[arg-type]
            if record:
                append_record(results / "bench.jsonl", each)
            records.append(each)
    if as_json:
        for each in records:
            typer.echo(json.dumps(each))
        return
    kernels = [kernels_table(each) for each in records if each["kernels"] is not None]
    show(_costs_table(records), _footer(records[0]), *kernels)


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
    from gnnak.training.measure.bench import PHASES

    seconds, kernels = record["seconds"], record["kernels"] or {}
    phases = {f"  {name}, step by step": seconds.get(name) for name in PHASES}
    return {
        "seconds an epoch": f"{seconds['epoch']:.3f}",
        **{title: _optional(taken, ".3f") for title, taken in phases.items()},
        "seconds of evaluation": _optional(seconds.get("evaluation"), ".3f"),
        f"{record['counted']} a second": f"{record['graphs_per_second']:,.0f}",
        "peak memory, MB": _optional(record["peak_memory_mb"], ",.0f"),
        "kernels' share": _optional(kernels.get("share"), ".0%"),
        "plain / fast": _optional(record["ratio"], ".2f"),
    }


def _footer(record: Record) -> str:
    measured, total = record["graphs"], record["graphs_an_epoch"]
    line = f"{record['parameters']:,} weights"
    if measured != total:
        line += f"; scaled from {measured:,} to {total:,} training {record['counted']}"
    if record["ratio"] is not None and record["accelerator"] != "cuda":
        line += "; without a GPU both paths are the same, and their ratio is noise"
    return line


def kernels_table(record: Record) -> Table:
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
    if record["kind"] == "growth":
        return f"{record['what']} {record['value']}"
    precision = record["config"]["train"]["precision"]
    path = "fast" if record["fast"] else "plain"
    return path if precision == "32" else f"{path}, {precision}"


def _optional(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)

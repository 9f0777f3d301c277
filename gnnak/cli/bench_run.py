"""The work of `gnnak bench`: measure training runs, store records, build tables.

A record is a JSON object with the measurements of one run. The fast path uses fused
kernels and training steps captured as CUDA graphs; the plain path (`--plain`) is
ordinary PyTorch.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from rich.table import Table

from gnnak.training.config.run_config import RunConfig
from gnnak.training.launch import Places, find_dataset
from gnnak.training.measure.bench import BenchOptions, bench, bench_both
from gnnak.training.measure.growth import check_growing, grow
from gnnak.training.measure.meters import PHASES, Notify
from gnnak.training.processes.machine import Machine
from gnnak.training.records.results import Record, append_record


def measure(
    config: RunConfig,
    places: Places,
    machine: Machine,
    options: BenchOptions,
    growing: str | None,
    compare: bool,
    path: Path | None,
    notify: Notify,
) -> list[Record]:
    """Measure time and memory of a training epoch, for one or several settings.

    Args:
        config: The config of the training run.
        places: Folders that the data set is read from.
        machine: Device, and options that save memory.
        options: Number of graphs and epochs, and what else to measure.
        growing: The quantity to vary (a key of `growth.RANGES`), with one measurement
            per value; None = measure `config` as it is.
        compare: Whether to measure twice: on the fast path (fused kernels and captured
            CUDA graphs) and on the plain path (ordinary PyTorch).
        path: File to which each measurement is appended as soon as it is done; None =
            measurements are not stored.
        notify: Function that is called with a text about the progress.

    Returns:
        One record per measurement: a JSON object with times, memory and config.
    """
    records = []
    for record in _measured(config, places, machine, options, growing, compare, notify):
        if path is not None:
            append_record(path, record)
        records.append(record)
    return records


def _measured(
    config: RunConfig,
    places: Places,
    machine: Machine,
    options: BenchOptions,
    growing: str | None,
    compare: bool,
    notify: Notify,
) -> Iterable[Record]:
    """Measure and return the records; arguments as in `measure`."""
    if growing is not None:
        check_growing(growing, config)  # type: ignore[arg-type]
        load = partial(find_dataset, config, places)
        return grow(growing, config, load, machine, options, notify)  # type: ignore[arg-type]
    dataset = find_dataset(config, places)
    if compare:
        return bench_both(config, dataset, machine, options, notify)
    return [bench(config, dataset, machine, options, notify)]


def _seconds(phase: str) -> Callable[[Record], str]:
    return lambda record: _optional(record["seconds"].get(phase), ".3f")


ROWS: dict[str, Callable[[Record], str]] = {
    "seconds an epoch": _seconds("epoch"),
    **{f"  {phase}, step by step": _seconds(phase) for phase in PHASES},
    "seconds of evaluation": _seconds("evaluation"),
    "graphs a second": lambda r: f"{r['graphs_per_second']:,.0f}",
    "peak memory, MB": lambda r: _optional(r["peak_memory_mb"], ",.0f"),
    "kernels' share": lambda r: _optional((r["kernels"] or {}).get("share"), ".0%"),
    "plain / fast": lambda r: _optional(r["ratio"], ".2f"),
}
"""Rows of the table that `costs_table` builds. Maps the title of each row to a function
that returns the text of the row's cell, given the record of the cell's column."""


def costs_table(records: Sequence[Record]) -> Table:
    """Return a table of time and memory with one column per measurement.

    Rows without a value in any column are left out.
    """
    first = records[0]
    data, model = (first["config"][part]["name"] for part in ("data", "model"))
    if first.get("what") == "nodes":
        data = "4-regular graphs"
    table = Table("", title=f"{data}, {model}, {first['device']}")
    for record in records:
        table.add_column(_column(record), justify="right", no_wrap=True)
    for name, text_of in ROWS.items():
        cells = [text_of(record) for record in records]
        if any(cells):
            table.add_row(name, *cells)
    return table


def footer(record: Record) -> str:
    """Return the line below the table of time and memory.

    The line has the number of weights. It also says if the time was measured on some
    graphs and scaled up, or if the fast and the plain path were compared without a GPU,
    where both run the same code.
    """
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
    """Return the title of a record's column in the table of time and memory.

    With `--grow`, the title is the varied quantity and its value, such as "hops 2".
    Otherwise it is "fast" or "plain".
    """
    if record["kind"] == "growth":
        return f"{record['what']} {record['value']}"
    return "fast" if record["fast"] else "plain"


def _optional(value: float | None, form: str) -> str:
    """Format a number; None becomes the empty string."""
    return "" if value is None else format(value, form)

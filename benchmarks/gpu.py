"""Measure time and memory of a training epoch for every row of `benchmarks.goals`.

A row is a data set and a model. All rows are timed before the first is profiled,
because a profiler slows down all later kernel launches of the process. If a row fails,
its error is printed and the next row is measured. If a file in the folder GNNAK_DATA
contains only a part of a data set, its graphs are repeated until there are as many as
in the whole data set. Run

    python -m benchmarks.gpu [--rows zinc-gin,zinc-ak] [--growth] [--out FILE]
"""

import argparse
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path

from benchmarks.goals import ROWS
from benchmarks.gpu_data import full_size
from gnnak.datasets.record import Dataset
from gnnak.errors import GnnakError
from gnnak.training.config.experiment import load_experiment
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.measure.bench import (
    RANGES,
    BenchOptions,
    bench,
    bench_both,
    grow,
    with_kernels,
)
from gnnak.training.processes.machine import Machine
from gnnak.training.records.results import Record, append_record, read_records

RESULTS = Path("results/bench.jsonl")
GROWTH = {f"grow-{what}": what for what in RANGES}
"""Further rows, which measure GIN-AK+ for several values of one quantity: from the name
of the row to the quantity."""

load = cache(full_size)


def measure_row(
    name: str, machine: Machine, epochs: int | None, graphs: int | None
) -> list[Record]:
    """Measure a row of `ROWS`.

    Args:
        name: Name of the row.
        machine: Device to measure on.
        epochs: Number of timed epochs; None = that of the row.
        graphs: Number of training graphs; None = that of the row.

    Returns:
        The JSON record of the fast path and, if the row has `compare`, also that of
        the plain path.
    """
    row = ROWS[name]
    given = row_arguments(name, machine, epochs, graphs)
    return bench_both(*given) if row.compare else [bench(*given)]


def row_arguments(
    name: str, machine: Machine, epochs: int | None, graphs: int | None
) -> tuple[RunConfig, Dataset, Machine, BenchOptions]:
    """Return the arguments of `bench` for a row; arguments as in `measure_row`."""
    row = ROWS[name]
    options = BenchOptions(graphs or row.graphs, epochs or row.epochs)
    machine = replace(machine, recompute=row.recompute)
    return row.config, load(row.experiment), machine, options


def measure_growth(
    name: str, machine: Machine, epochs: int | None, graphs: int | None
) -> Iterator[Record]:
    """Measure a row of `GROWTH`, with one record per value of its quantity.

    The number of nodes is varied on generated regular graphs, all other quantities on a
    part of ZINC. Arguments as in `measure_row`.
    """
    what = GROWTH[name]
    graphs = graphs or (256 if what == "nodes" else 1280)
    model = "gin-ak+-s" if what == "coverage" else "gin-ak+"
    config = change(load_experiment("zinc").config, {"model.name": model})
    options = BenchOptions(graphs, epochs or 2)
    return grow(what, config, lambda: load("zinc"), machine, options)


def list_kernels(
    name: str, records: list[Record], machine: Machine, options: argparse.Namespace
) -> None:
    """Profile the GPU kernels of a row and add them to its records.

    Args:
        name: Name of the row.
        records: The records of the row, which are changed in place.
        machine: Device to measure on.
        options: The parsed command line.
    """
    given = row_arguments(name, machine, options.epochs, options.graphs)
    config, dataset, machine, how = given
    for record in records:
        each = replace(machine, fast=record["fast"])
        record |= with_kernels(record, config, dataset, each, how)


def measure(
    name: str, records: list[Record], machine: Machine, options: argparse.Namespace
) -> None:
    """Measure a row of `ROWS` or `GROWTH`.

    Args:
        name: Name of the row.
        records: List that the records of the row are appended to; each is also printed.
        machine: Device to measure on.
        options: The parsed command line.
    """
    make: Callable[..., Iterable[Record]] = (
        measure_growth if name in GROWTH else measure_row
    )
    for record in make(name, machine, options.epochs, options.graphs):
        records.append(record | {"row": name})
        print(shown(records[-1]), flush=True)


def attempt(work: Callable[..., None], *given: object) -> str:
    """Call `work(*given)`; return its error message, or "" if it succeeds."""
    try:
        work(*given)
    except GnnakError as error:
        return str(error)
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    return ""


def shown(record: Record) -> str:
    """Format a JSON record as one line of text."""
    seconds, memory = record["seconds"], record["peak_memory_mb"]
    phases = ", ".join(f"{k} {v:.3g}" for k, v in seconds.items() if k != "epoch")
    kernels = record["kernels"]
    value = f" {record['value']}" if "value" in record else ""
    parts = [
        f"{record['row'] + value:16} {'fast ' if record['fast'] else 'plain'}",
        f"{seconds['epoch']:8.3f} s" + ("" if memory is None else f" {memory:8.0f} MB"),
        f"{record['graphs_per_second']:8.0f} graphs/s",
        f"({phases})",
        "" if kernels is None else f"kernels {kernels['share']:.0%}",
        "" if record["ratio"] is None else f"plain/fast {record['ratio']:.2f}",
    ]
    return "  ".join(part for part in parts if part)


def go_on(rows: list[str], options: argparse.Namespace, seconds: float) -> None:
    """Measure the remaining rows in a new process.

    This is needed after a CUDA error, which makes the GPU unusable in this process.

    Args:
        rows: Names of the rows.
        options: The parsed command line.
        seconds: Time limit: no row is started later.
    """
    command = [sys.executable, "-m", "benchmarks.gpu", "--rows", ",".join(rows)]
    command += ["--out", str(options.out), "--accelerator", options.accelerator]
    command += ["--limit", str(seconds)]
    for name in ("epochs", "graphs"):
        if getattr(options, name):
            command += [f"--{name}", str(getattr(options, name))]
    subprocess.run(command, check=False)


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = ", ".join([*ROWS, *GROWTH])
    parser.add_argument("--rows", help=f"comma-separated list of: {known}")
    parser.add_argument(
        "--growth",
        action="store_true",
        help="also measure growing values of one option",
    )
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="file that records are appended to"
    )
    parser.add_argument("--epochs", type=int, help="timed epochs of every row")
    parser.add_argument("--graphs", type=int, help="training graphs of every row")
    parser.add_argument("--accelerator", default="auto", choices=["auto", "cpu", "gpu"])
    parser.add_argument(
        "--limit", type=float, default=600.0, help="start no row after so many seconds"
    )
    options = parser.parse_args()
    rows = options.rows.split(",") if options.rows else [*ROWS]
    options.rows = rows + [*GROWTH] * options.growth
    if unknown := set(options.rows) - {*ROWS, *GROWTH}:
        parser.error(f"unknown rows {', '.join(sorted(unknown))}; known: {known}")
    return options


def main() -> None:
    """Measure the selected rows; print each row when measured, and all at the end."""
    options = parse()
    # A process that is stopped from outside also writes its records.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    machine, begin = Machine(options.accelerator), time.perf_counter()
    before = len(read_records(options.out))
    found: dict[str, list[Record]] = {}
    failed: dict[str, str] = {}
    rest: list[str] = []

    def left() -> float:
        return options.limit - (time.perf_counter() - begin)

    try:
        for place, name in enumerate(options.rows):
            if left() <= 0:
                failed[name] = "no time left"
                continue
            found[name] = []
            error = attempt(measure, name, found[name], machine, options)
            if not error:
                continue
            failed[name] = error
            print(f"{name}: {error}", flush=True)
            if machine.is_gpu and "CUDA" in error:
                rest = options.rows[place + 1 :]
                break
        else:
            for name in [name for name in found if name in ROWS and machine.is_gpu]:
                if left() > 0:
                    attempt(list_kernels, name, found[name], machine, options)
    finally:
        for record in chain.from_iterable(found.values()):
            append_record(options.out, record)
    if rest:
        go_on(rest, options, left())
    print(f"\n{time.perf_counter() - begin:.0f} s in total")
    for record in read_records(options.out)[before:]:
        print(shown(record))
    for name, error in failed.items():
        print(f"{name}: {error}")


if __name__ == "__main__":
    main()

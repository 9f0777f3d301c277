"""What epochs cost: every row of `benchmarks.goals`, one after another.

First all rows are timed; then their kernels are listed, as a profiler slows what comes
after it. A row that fails is told and the others go on. Files in the folder of
GNNAK_DATA may hold a part of a data set: its graphs then stand in for all, again and
again, so that stores are as large as in training. Run with

    python -m benchmarks.gpu [--rows zinc-gin,zinc-ak] [--growth] [--out FILE]
"""

import argparse
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
    BenchOptions,
    bench,
    bench_both,
    with_kernels,
)
from gnnak.training.measure.growth import RANGES, grow
from gnnak.training.processes.machine import Machine
from gnnak.training.records.results import Record, append_record, read_records

RESULTS = Path("results/bench.jsonl")
GROWTH = {f"grow-{what}": what for what in RANGES}
"""Ranges of ZINC's GIN-AK+, as rows of their own."""

load = cache(full_size)


def measure_row(
    name: str, machine: Machine, epochs: int | None, graphs: int | None
) -> list[Record]:
    """One row: the record of the fast path, and of the plain one if it is compared."""
    row = ROWS[name]
    given = row_arguments(name, machine, epochs, graphs)
    return bench_both(*given) if row.compare else [bench(*given)]


def row_arguments(
    name: str, machine: Machine, epochs: int | None, graphs: int | None
) -> tuple[RunConfig, Dataset, Machine, BenchOptions]:
    """What `bench` is given for a row."""
    row = ROWS[name]
    options = BenchOptions(graphs or row.graphs, epochs or row.epochs)
    machine = replace(machine, recompute=row.recompute)
    return row.config, load(row.experiment), machine, options


def measure_growth(
    name: str, machine: Machine, epochs: int | None, graphs: int | None
) -> Iterator[Record]:
    """One range of values, on a part of ZINC or on regular graphs."""
    what = GROWTH[name]
    graphs = graphs or (256 if what == "nodes" else 1280)
    model = "gin-ak+-s" if what == "coverage" else "gin-ak+"
    config = change(load_experiment("zinc").config, {"model.name": model})
    options = BenchOptions(graphs, epochs or 2)
    return grow(what, config, lambda: load("zinc"), machine, options)


def list_kernels(
    name: str, records: list[Record], machine: Machine, options: argparse.Namespace
) -> None:
    """Put the kernels of a GPU into the records of a row."""
    given = row_arguments(name, machine, options.epochs, options.graphs)
    config, dataset, machine, how = given
    for record in records:
        each = replace(machine, fast=record["fast"])
        record |= with_kernels(record, config, dataset, each, how)


def measure(
    name: str, records: list[Record], machine: Machine, options: argparse.Namespace
) -> None:
    """Measure a row; its records are put to the others, and a line for each printed."""
    make: Callable[..., Iterable[Record]] = (
        measure_growth if name in GROWTH else measure_row
    )
    for record in make(name, machine, options.epochs, options.graphs):
        records.append(record | {"row": name})
        print(shown(records[-1]), flush=True)


def attempt(work: Callable[..., None], *given: object) -> str:
    """Do some work; what went wrong, if anything did."""
    try:
        work(*given)
    except GnnakError as error:
        return str(error)
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    return ""


def shown(record: Record) -> str:
    """A record as a line."""
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
    """Run rows in a fresh process: an error inside a GPU spoils the one it was in."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--rows", ",".join(rows)]
    command += ["--out", str(options.out), "--accelerator", options.accelerator]
    command += ["--limit", str(seconds)]
    for name in ("epochs", "graphs"):
        if getattr(options, name):
            command += [f"--{name}", str(getattr(options, name))]
    subprocess.run(command, check=False)


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = ", ".join([*ROWS, *GROWTH])
    parser.add_argument("--rows", help=f"a list with commas, of: {known}")
    parser.add_argument("--growth", action="store_true", help="the ranges, too")
    parser.add_argument("--out", type=Path, default=RESULTS, help="append records here")
    parser.add_argument("--epochs", type=int, help="epochs timed, in every row")
    parser.add_argument("--graphs", type=int, help="graphs trained on, in every row")
    parser.add_argument("--accelerator", default="auto", choices=["auto", "cpu", "gpu"])
    parser.add_argument(
        "--limit", type=float, default=600.0, help="begin no row after these seconds"
    )
    options = parser.parse_args()
    rows = options.rows.split(",") if options.rows else [*ROWS]
    options.rows = rows + [*GROWTH] * options.growth
    if unknown := set(options.rows) - {*ROWS, *GROWTH}:
        parser.error(f"no rows {', '.join(sorted(unknown))}; there are: {known}")
    return options


def main() -> None:
    """Measure the rows asked for; print a line each, and all of them at the end."""
    options = parse()
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
    print(f"\n{time.perf_counter() - begin:.0f} s in all")
    for record in read_records(options.out)[before:]:
        print(shown(record))
    for name, error in failed.items():
        print(f"{name}: {error}")


if __name__ == "__main__":
    main()

"""What epochs cost: every row of `benchmarks.goals`, one after another.

A row that fails is told and the others go on. Files in the folder of GNNAK_DATA may
hold a part of a data set: its graphs then stand in for all, again and again, so that
stores are as large as in training. Run with

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
from pathlib import Path

from benchmarks.goals import ROWS
from benchmarks.gpu_data import full_size
from gnnak.errors import GnnakError
from gnnak.training.experiment import load_experiment
from gnnak.training.machine import Machine
from gnnak.training.measure.bench import BenchOptions, bench, bench_both
from gnnak.training.measure.growth import RANGES, grow
from gnnak.training.options import change
from gnnak.training.results import Record, append_record, read_records

RESULTS = Path("results/bench.jsonl")
GROWTH = {f"grow-{what}": what for what in RANGES}
"""Ranges of ZINC's GIN-AK+, as rows of their own."""

load = cache(full_size)


def measure_row(
    name: str, machine: Machine, epochs: int | None, graphs: int | None
) -> list[Record]:
    """One row: the record of the fast path, and of the plain one if it is compared."""
    row = ROWS[name]
    options = BenchOptions(graphs or row.graphs, epochs or row.epochs, profile=True)
    machine = replace(machine, recompute=row.recompute)
    arguments = (row.config, load(row.experiment), machine, options)
    return bench_both(*arguments) if row.compare else [bench(*arguments)]


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


def measure(name: str, machine: Machine, options: argparse.Namespace) -> str | None:
    """Measure a row and append its records; what went wrong, if anything did."""
    make: Callable[..., Iterable[Record]] = (
        measure_growth if name in GROWTH else measure_row
    )
    try:
        for record in make(name, machine, options.epochs, options.graphs):
            append_record(options.out, record | {"row": name})
            print(shown(record | {"row": name}), flush=True)
    except GnnakError as error:
        return str(error)
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    return None


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
    failed: dict[str, str] = {}
    for place, name in enumerate(options.rows):
        left = options.limit - (time.perf_counter() - begin)
        if left <= 0:
            failed[name] = "no time left"
            continue
        error = measure(name, machine, options)
        if error is not None:
            failed[name] = error
            print(f"{name}: {error}", flush=True)
        if error is not None and machine.is_gpu and "CUDA" in error:
            go_on(options.rows[place + 1 :], options, left)
            break
    print(f"\n{time.perf_counter() - begin:.0f} s in all")
    for record in read_records(options.out)[before:]:
        print(shown(record))
    for name, error in failed.items():
        print(f"{name}: {error}")


if __name__ == "__main__":
    main()

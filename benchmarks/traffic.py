"""Measure the bytes that each GPU kernel of a training step moves, with Nsight Compute.

For each row of `benchmarks.goals`, one training step that is not captured as a CUDA
graph runs under `ncu`. A record has the launches, the time and the bytes of device
memory of each kernel, and the share of its peak rate that the busiest of device memory,
L2 cache, L1 cache and arithmetic units reaches. Run

    python -m benchmarks.traffic [--rows zinc-ak,cifar-ak] [--out FILE]
"""

import argparse
import csv
import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from lightning.pytorch import LightningModule, Trainer

from benchmarks.goals import ROWS
from benchmarks.gpu_data import SIZES, full_size
from gnnak.loading.prefetch import prefetching_paused
from gnnak.training.measure.bench import (
    WARM_UP,
    Meters,
    PhaseTimes,
    Stopwatch,
    run_step,
    short_name,
    short_run,
)
from gnnak.training.module import GraphTask
from gnnak.training.processes.machine import Machine
from gnnak.training.protocols import choose_parts
from gnnak.training.records.results import (
    Record,
    append_record,
    environment,
    six_digits,
)

RESULTS = Path("results/traffic.jsonl")
DEFAULT = (
    *("zinc-ak", "zinc-ak-bf16", "zinc-sswl", "zinc-sswl-bf16"),
    *("cifar-ak", "cifar-ak-bf16", "cifar-drop", "cifar-drop-bf16"),
    *("pattern-ak", "pattern-ak-bf16", "cifar-pna", "cifar-pna-bf16"),
)
BATCHES = 3
"""Number of training batches of a row; each has the batch size of the experiment."""
MARKER = "lgamma"
"""Part of the name of a kernel that networks do not use; it runs before each step."""
READ, WRITTEN, TIME = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "gpu__time_duration.sum",
)
RATES = {
    "device memory": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "L1": "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "arithmetic": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
}
TOP = 8


class ProfiledStep(PhaseTimes):
    """Callback that runs one more training step, with the CUDA profiler switched on."""

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        assert isinstance(module, GraphTask)
        module.train()
        data = trainer.datamodule  # type: ignore[attr-defined]
        items = list(islice(data.train_dataloader(), WARM_UP + 1))
        for item in items[:-1]:
            run_step(trainer, module, item, {})
        with prefetching_paused():
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            torch.lgamma(torch.ones(3, device=trainer.strategy.root_device))
            run_step(trainer, module, items[-1], {})
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()


def run_rows(names: Iterable[str]) -> None:
    """Run one profiled step of each row; this is the program that `ncu` starts."""
    for name in names:
        row = ROWS[name]
        dataset, config = full_size(row.experiment), row.config
        whole = choose_parts(dataset, config.data.protocol, config.data.fold)
        graphs = BATCHES * (config.train.batch_size or 1)
        parts = replace(whole, train=whole.train[:graphs])
        machine = Machine("gpu", recompute=row.recompute)
        meters = Meters(Stopwatch(0, 1), ProfiledStep())
        short_run(config, dataset, parts, machine, meters)
        print(f"profiled {name}", flush=True)


def steps_of(lines: Iterable[str]) -> Iterator[list[dict[str, str]]]:
    """Split the CSV output of `ncu` into the kernels of each profiled step."""
    table = csv.DictReader(line for line in lines if line.startswith('"'))
    step: list[dict[str, str]] | None = None
    for kernel in table:
        if not kernel["ID"]:
            continue  # the line with the units
        if MARKER in kernel["Kernel Name"]:
            if step is not None:
                yield step
            step = []
        elif step is not None:
            step.append(kernel)
    if step is not None:
        yield step


def number(kernel: dict[str, str], metric: str) -> float:
    return float(kernel[metric].replace(",", "") or "nan")


def summary(step: list[dict[str, str]]) -> Record:
    """Sum launches, microseconds and megabytes per kernel name; slowest name first."""
    groups = defaultdict(list)
    for kernel in step:
        groups[short_name(kernel["Kernel Name"])].append(kernel)
    kernels = []
    for name, launches in groups.items():
        taken = [number(kernel, TIME) / 1e3 for kernel in launches]
        moved = [number(k, READ) + number(k, WRITTEN) for k in launches]
        rates = {
            unit: sum(t * number(k, m) for t, k in zip(taken, launches, strict=True))
            / sum(taken)
            for unit, m in RATES.items()
        }
        kernels.append(
            {
                "name": name,
                "calls": len(launches),
                "microseconds": six_digits(sum(taken)),
                "megabytes": six_digits(sum(moved) / 1e6),
                "percent_of_peak": {u: round(r, 1) for u, r in rates.items()},
            }
        )
    kernels.sort(key=lambda kernel: -kernel["microseconds"])
    total = {key: sum(k[key] for k in kernels) for key in ("microseconds", "megabytes")}
    return {"calls": len(step), **total, "kernels": kernels}


def measure(names: list[str]) -> Iterator[Record]:
    """Profile one step of each row in one program under `ncu`; yield the records."""
    metrics = ",".join([READ, WRITTEN, TIME, *RATES.values()])
    with TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        command = ["ncu", "--profile-from-start", "off", "--clock-control", "none"]
        command += ["--cache-control", "none", "--csv", "--page", "raw"]
        command += ["--print-units", "base", "--metrics", metrics]
        command += ["--log-file", str(log), sys.executable, "-m", "benchmarks.traffic"]
        subprocess.run([*command, "--run", "--rows", ",".join(names)], check=False)
        steps = list(steps_of(log.read_text().splitlines()))
    for name, step in zip(names, steps, strict=False):
        row = ROWS[name]
        graphs, size = SIZES[row.experiment][0], row.config.train.batch_size or 1
        yield {
            "kind": "traffic",
            "row": name,
            "cell": row.config.cell(),
            "steps_an_epoch": math.ceil(graphs / size),
            **summary(step),
            **environment(torch.device("cuda")),
        }


def main() -> None:
    """Measure the selected rows and append their records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(DEFAULT), help="rows, with commas")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of records")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.rows.split(",")
    if unknown := set(names) - set(ROWS):
        parser.error(f"unknown rows {', '.join(sorted(unknown))}; known: {list(ROWS)}")
    if options.run:
        run_rows(names)
        return
    for record in measure(names):
        append_record(options.out, record)
        print(record["row"], record["microseconds"], record["megabytes"])


if __name__ == "__main__":
    main()

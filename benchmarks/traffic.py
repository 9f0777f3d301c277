"""Count the bytes that each operation of a training step reads and writes on a GPU.

For each row of `benchmarks.goals`, one training step that is not captured as a CUDA
graph is profiled. Triton kernels are counted by kernel; all other kernels are counted
by the PyTorch operation that launches them. Every input and every output of a launch
counts once and whole, although a kernel may read rows repeatedly or in part. So the
bytes divided by the bandwidth of the memory are about the time that a launch needs if
it only waits for memory. Run

    python -m benchmarks.traffic [--rows zinc-ak,cifar-ak] [--out FILE]
"""

import argparse
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor
from torch.autograd import DeviceType
from torch.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.goals import ROWS
from benchmarks.gpu_data import SIZES, full_size
from gnnak.loading.prefetch import prefetching_paused
from gnnak.training.measure.bench import (
    WARM_UP,
    PhaseTimes,
    Stopwatch,
    run_step,
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


class Traffic(TorchDispatchMode):
    """Counts launches and bytes of PyTorch operations and Triton kernels, by name."""

    def __init__(self, device: str = "cuda") -> None:
        super().__init__()
        self.device = device
        self.calls: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket._qualified_op_name
        if not func.is_view and "empty" not in name:
            self.count(name, tree_leaves((args, kwargs, out)))
        return out

    def count(self, name: str, values: list[Any]) -> None:
        moved = sum(_bytes(value) for value in values if self._is_on_device(value))
        if moved:
            self.calls[name] += 1
            self.bytes[name] += moved

    def _is_on_device(self, value: Any) -> bool:
        return isinstance(value, Tensor) and value.device.type == self.device

    @contextmanager
    def triton_kernels(self) -> Iterator[set[str]]:
        """Also count Triton kernels; yield the set of the names of launched kernels."""
        from gnnak.fast.kernels.gpu.tiles import CachedKernel

        names: set[str] = set()
        run = CachedKernel.run

        def count_and_run(kernel: Any, *args: Any, **options: Any) -> Any:
            names.add(kernel.fn.__name__)
            self.count(kernel.fn.__name__, [*args])
            return run(kernel, *args, **options)

        CachedKernel.run = count_and_run
        try:
            yield names
        finally:
            CachedKernel.run = run


def _bytes(value: Tensor) -> int:
    """Return the bytes of the distinct elements of a tensor, which may be expanded."""
    sides = zip(value.shape, value.stride(), strict=True)
    return value.element_size() * math.prod(n for n, stride in sides if stride)


class ProfiledStep(PhaseTimes):
    """Callback that profiles one more training step after the training."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[dict[str, Any]] = []
        """Calls, microseconds and megabytes of each operation, slowest first."""

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        assert isinstance(module, GraphTask)
        module.train()
        data = trainer.datamodule  # type: ignore[attr-defined]
        items = list(islice(data.train_dataloader(), WARM_UP + 1))
        for item in items[:-1]:
            run_step(trainer, module, item, {})
        traffic = Traffic()
        with prefetching_paused():
            with traffic, traffic.triton_kernels() as kernels:
                run_step(trainer, module, items[-1], {})
            with profile(acc_events=True) as profiled:
                run_step(trainer, module, items[-1], {})
        taken = microseconds(profiled.events(), kernels, set(traffic.bytes))
        self.operations = summary(traffic, taken)


def microseconds(events: Any, kernels: set[str], counted: set[str]) -> Counter[str]:
    """Return the kernel time of each Triton kernel and each PyTorch operation.

    If an operation in `counted` calls other operations, it includes their time.
    """
    taken: Counter[str] = Counter()
    for event in events:
        if event.device_type == DeviceType.CUDA:
            name = event.name if event.name in kernels else ""
        else:
            name = event.name if event.name.startswith("aten::") else ""
            caller = event.cpu_parent
            while name and caller is not None:
                name = caller.name if caller.name in counted else name
                caller = caller.cpu_parent
        if name:
            taken[name] += event.self_device_time_total
    return taken


def summary(traffic: Traffic, taken: Counter[str]) -> list[dict[str, Any]]:
    """Join bytes and times by name, slowest first."""
    return [
        {
            "name": name,
            "calls": traffic.calls[name],
            "microseconds": six_digits(taken[name]),
            "megabytes": six_digits(traffic.bytes[name] / 1e6),
        }
        for name in sorted({*taken, *traffic.bytes}, key=lambda name: -taken[name])
        if taken[name] or traffic.bytes[name]
    ]


def measure(name: str) -> Record:
    """Profile a training step of a row; return its record."""
    row = ROWS[name]
    dataset, config = full_size(row.experiment), row.config
    whole = choose_parts(dataset, config.data.protocol, config.data.fold)
    size = config.train.batch_size or 1
    parts = replace(whole, train=whole.train[: BATCHES * size])
    machine, step = Machine("gpu", recompute=row.recompute), ProfiledStep()
    short_run(config, dataset, parts, machine, 1, [Stopwatch(0, 1), step])
    keys = ("calls", "microseconds", "megabytes")
    return {
        "kind": "traffic",
        "row": name,
        "cell": config.cell(),
        "recompute": row.recompute,
        "steps_an_epoch": math.ceil(SIZES[row.experiment][0] / size),
        **{key: sum(operation[key] for operation in step.operations) for key in keys},
        "operations": step.operations,
        **environment(torch.device("cuda")),
    }


def main() -> None:
    """Measure the selected rows and append their records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(DEFAULT), help="rows, with commas")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of records")
    options = parser.parse_args()
    names = options.rows.split(",")
    if unknown := set(names) - set(ROWS):
        parser.error(f"unknown rows {', '.join(sorted(unknown))}; known: {list(ROWS)}")
    for name in names:
        record = measure(name)
        append_record(options.out, record)
        milliseconds, gigabytes = (
            record[key] / 1000 for key in ("microseconds", "megabytes")
        )
        print(f"{name:16} {milliseconds:8.2f} ms {gigabytes:8.2f} GB", flush=True)


if __name__ == "__main__":
    main()

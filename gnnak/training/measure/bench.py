"""Benchmark the training epochs of a run: seconds by phase, memory and kernels."""

import gc
import math
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Literal

import networkx as nx
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.autograd import DeviceType
from torch.profiler import profile

from gnnak.datasets.record import Dataset, DatasetInfo
from gnnak.device import peak_megabytes, reset_peak
from gnnak.errors import OptionError, TrainingError
from gnnak.graphs import from_networkx
from gnnak.loading.items import Item
from gnnak.loading.order import BatchSampler
from gnnak.loading.prefetch import prefetching_paused
from gnnak.loop.step import backward, clip_gradients
from gnnak.models.factory import parse_name
from gnnak.nn.features import Categorical
from gnnak.subgraphs.egonets import EgoNets
from gnnak.training.callbacks import RestoreSignals
from gnnak.training.config.options import change
from gnnak.training.config.run_config import DataConfig, RunConfig
from gnnak.training.data import GraphData
from gnnak.training.module import GraphTask
from gnnak.training.processes.machine import (
    Machine,
    make_trainer,
    matmul_precision,
    quiet_lightning,
)
from gnnak.training.protocols import Parts, choose_parts
from gnnak.training.records.results import Record, environment, six_digits
from gnnak.training.run import is_captured, prepare, run_title
from gnnak.training.timing import Clock
from gnnak.typing import check_count

Notify = Callable[[str], None]
"""A function that is called with a short text about the progress of a benchmark."""


def synchronised_time(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class Stopwatch(Callback):
    """Callback that times training and evaluation, and measures peak memory."""

    def __init__(
        self, warm_up: int, epochs: int, notify: Notify = lambda text: None
    ) -> None:
        self.warm_up, self.epochs, self.notify = warm_up, epochs, notify
        self.training: list[float] = []
        self.evaluation: list[float] = []
        self.megabytes: float | None = None
        self._since = 0.0

    @property
    def seconds(self) -> float:
        return median(self.training)

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._since = synchronised_time(trainer.strategy.root_device)

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        reset_peak(trainer.strategy.root_device)
        epoch, total = trainer.current_epoch + 1, trainer.max_epochs
        kind = " (warm-up)" if epoch <= self.warm_up else ""
        self.notify(f"epoch {epoch} of {total}{kind}")

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        device = trainer.strategy.root_device
        now = synchronised_time(device)
        if self._is_timed(trainer):
            self.training.append(now - self._since)
            peak = peak_megabytes(device)
            if peak is not None:
                self.megabytes = max(peak, self.megabytes or 0.0)
        self._since = now

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        now = synchronised_time(trainer.strategy.root_device)
        if self._is_timed(trainer):
            self.evaluation.append(now - self._since)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        if len(self.training) <= trainer.current_epoch - self.warm_up:
            self.on_validation_start(trainer, module)
        self._since = synchronised_time(trainer.strategy.root_device)

    def _is_timed(self, trainer: Trainer) -> bool:
        return 0 <= trainer.current_epoch - self.warm_up < self.epochs


PHASES = ("data", "forward", "backward", "optimiser")
"""The phases of a training step, in order; `data` is the assembly of the batch."""
WARM_UP, MOST = 2, 20
"""Number of untimed training steps at the start, and largest number of timed steps."""


class PhaseTimes(Callback):
    """Callback: after the training, run uncaptured steps, and time their phases."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        """Seconds per epoch of each phase; empty before the end of the training."""

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        assert isinstance(module, GraphTask)
        module.train()
        timed = list(_steps(trainer, module))[WARM_UP:]
        batches = int(trainer.num_training_batches)
        for phase in PHASES:
            mean = sum(step[phase] for step in timed) / len(timed)
            self.seconds[phase] = mean * batches


def _steps(trainer: Trainer, task: GraphTask) -> Iterator[dict[str, float]]:
    data = trainer.datamodule  # type: ignore[attr-defined]
    assert isinstance(data, GraphData)
    device = trainer.strategy.root_device
    batches = iter(data.train_dataloader())
    for _ in range(WARM_UP + min(MOST, int(trainer.num_training_batches))):
        taken: dict[str, float] = {}
        with _phase("data", taken, device):
            item = next(batches, None)
            if item is None:
                batches = iter(data.train_dataloader())
                item = next(batches)
        run_step(trainer, task, item, taken)
        yield taken


def run_step(
    trainer: Trainer, task: GraphTask, item: Item, taken: dict[str, float]
) -> None:
    """Run a training step that is not captured; add seconds by phase to `taken`."""
    device, optimiser = trainer.strategy.root_device, trainer.optimizers[0]
    with (
        _phase("forward", taken, device),
        trainer.precision_plugin.train_step_context(),
    ):
        loss = task.loss_of(item)
    with _phase("backward", taken, device):
        backward(loss)
    with _phase("optimiser", taken, device):
        clip_gradients(optimiser, task.config.train.clip)
        optimiser.step()
        optimiser.zero_grad()


@contextmanager
def _phase(phase: str, taken: dict[str, float], device: torch.device) -> Iterator[None]:
    begin = synchronised_time(device)
    yield
    taken[phase] = synchronised_time(device) - begin


STEPS, TOP, WIDTH = 10, 12, 60
"""Profiled steps, reported kernels, and largest length of a kernel's name."""


@dataclass(frozen=True)
class KernelTime:
    """How often one GPU kernel is launched in a training step, and how long it runs."""

    name: str
    calls: float
    """Mean number of launches per training step."""
    microseconds: float
    """Mean microseconds per training step, summed over all launches in the step."""


class KernelTimes(Callback):
    """Callback that profiles the first steps of one epoch, then stops the training."""

    def __init__(self, epoch: int) -> None:
        self.epoch, self.steps = epoch, 0
        self.kernels: list[KernelTime] = []
        """The times of all kernels, longest first; empty before profiling."""
        self._profile: Any = None

    def on_fit_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Run the profiler once: it then also sees kernels that are captured later."""
        with prefetching_paused(), profile(acc_events=True):
            pass

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        if trainer.current_epoch == self.epoch:
            synchronised_time(trainer.strategy.root_device)
            with prefetching_paused():
                self._profile = profile(acc_events=True).__enter__()

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, *more: Any
    ) -> None:
        if self._profile is not None:
            self.steps += 1
            if self.steps == STEPS:
                trainer.should_stop = True
                self._end(trainer)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        if self._profile is not None:
            self._end(trainer)

    def _end(self, trainer: Trainer) -> None:
        synchronised_time(trainer.strategy.root_device)
        with prefetching_paused():
            self._profile.__exit__(None, None, None)
        self.kernels = kernel_times(self._profile.key_averages(), self.steps)
        self._profile = None


def kernel_times(events: Iterable[Any], steps: int) -> list[KernelTime]:
    """Return the mean time per step of each GPU kernel in a profile, longest first."""
    calls: dict[str, float] = defaultdict(float)
    taken: dict[str, float] = defaultdict(float)
    for event in events:
        if event.device_type != DeviceType.CUDA or event.is_user_annotation:
            continue
        name = short_name(event.key)
        calls[name] += event.count / steps
        taken[name] += event.self_device_time_total / steps
    names = sorted(taken, key=lambda name: -taken[name])
    return [KernelTime(name, calls[name], taken[name]) for name in names]


def short_name(kernel: str) -> str:
    """Return the name of a kernel without return type, namespaces and arguments.

    >>> short_name("void at::native::vectorized_add<4, float>(int, float*)")
    'vectorized_add<4, float>'
    """
    name = kernel.removeprefix("void ")
    name = re.sub(r"\((anonymous|unnamed)[ \w]*\)::", "", name)
    name = re.sub(r"\b(at|native|cuda|cutlass|std|c10)::", "", name)
    name = re.sub(r"\(.*$", "", name)
    return name if len(name) <= WIDTH else name[: WIDTH - 3] + "..."


def kernels_share(found: KernelTimes, step_seconds: float) -> dict[str, Any]:
    microseconds = sum(kernel.microseconds for kernel in found.kernels)
    return {
        "share": microseconds / 1e6 / step_seconds,
        "microseconds": microseconds,
        "calls": sum(kernel.calls for kernel in found.kernels),
        "top": [vars(kernel) for kernel in found.kernels[:TOP]],
    }


def short_run(
    config: RunConfig,
    dataset: Dataset,
    parts: Parts,
    machine: Machine,
    epochs: int,
    meters: Sequence[Callback],
    evaluate: bool = False,
) -> Trainer:
    """Train as `run` does, with the callbacks `meters`; write no files."""
    gc.collect()  # free the memory of earlier runs
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    config = change(config, {"train.epochs": epochs})
    clock = Clock()
    task, data, captured, _ = prepare(config, dataset, parts, machine, clock)
    callbacks = [*meters, RestoreSignals()]
    try:
        with (
            TemporaryDirectory() as folder,
            quiet_lightning(),
            matmul_precision(machine),
        ):
            trainer = make_trainer(config, machine, callbacks, Path(folder), captured)
            clock.device = trainer.strategy.root_device
            if not evaluate:
                trainer.limit_val_batches = 0
            trainer.fit(task, data)
    except torch.OutOfMemoryError as error:
        raise TrainingError(
            f"{run_title(config)} needs more memory than the GPU has; add --recompute "
            "or lower train.batch_size."
        ) from error
    return trainer


WARM_BATCHES = 48
"""Least number of untimed batches; after them, most batch shapes have a CUDA graph."""


@dataclass(frozen=True)
class BenchOptions:
    graphs: int | None = None
    """Number of training graphs to use (None: all); times are scaled to all graphs."""
    epochs: int = 3
    """Number of timed epochs; the result is the median of their times."""
    warm_up: int = 1
    """Minimum number of untimed epochs at the start."""
    profile: bool = False
    """Whether to also profile GPU kernels, in a separate run after the timing."""
    evaluation: bool = False
    """Whether to also time the evaluation on the validation graphs."""
    notify: Notify = lambda text: None

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs, least=1)
        check_count("warm_up", self.warm_up)
        if self.graphs is not None:
            check_count("graphs", self.graphs, least=2)


def bench(
    config: RunConfig, dataset: Dataset, machine: Machine, options: BenchOptions
) -> Record:
    """Train for a few epochs; return a record of time and memory."""
    record = _timed(config, dataset, machine, options)
    if options.profile:
        record = with_kernels(record, config, dataset, machine, options)
    return record


def bench_both(
    config: RunConfig, dataset: Dataset, machine: Machine, options: BenchOptions
) -> list[Record]:
    """Benchmark fast code, then plain PyTorch; the first record has the speedup."""
    machines = [replace(machine, fast=fast) for fast in (True, False)]
    records = [_timed(config, dataset, each, options) for each in machines]
    fast, plain = (record["seconds"]["epoch"] for record in records)
    records[0]["ratio"] = six_digits(plain / fast)
    if not options.profile:
        return records
    return [
        with_kernels(record, config, dataset, each, options)
        for record, each in zip(records, machines, strict=True)
    ]


def with_kernels(
    record: Record,
    config: RunConfig,
    dataset: Dataset,
    machine: Machine,
    options: BenchOptions,
) -> Record:
    """Add a profile of GPU kernels to a record; on a CPU, return it unchanged."""
    if not machine.is_gpu:
        return record
    _, parts = _parts(config, dataset, options)
    warm_up = _warm_up(config, dataset, machine, options, parts)
    kernels = KernelTimes(warm_up)
    meters = Stopwatch(warm_up, 0, options.notify), kernels
    short_run(config, dataset, parts, machine, warm_up + 1, meters)
    step_seconds = median(record["epochs"]) / record["batches"]
    return record | {"kernels": kernels_share(kernels, step_seconds)}


def _timed(
    config: RunConfig, dataset: Dataset, machine: Machine, options: BenchOptions
) -> Record:
    whole, parts = _parts(config, dataset, options)
    warm_up = _warm_up(config, dataset, machine, options, parts)
    watch, phases = Stopwatch(warm_up, options.epochs, options.notify), PhaseTimes()
    epochs, meters = warm_up + options.epochs, (watch, phases)
    trainer = short_run(
        config, dataset, parts, machine, epochs, meters, options.evaluation
    )
    graphs, device = parts.train.numel(), trainer.strategy.root_device
    parameters = trainer.lightning_module.parameters()
    return {
        "kind": "bench",
        "config": config.to_dict(),
        "hash": config.hash(),
        "cell": config.cell(),
        "fast": machine.fast,
        "ratio": None,
        "recompute": machine.recompute,
        "max_copies": machine.max_copies,
        "source": dataset.info.source,
        "accelerator": device.type,
        "parameters": sum(p.numel() for p in parameters),
        "counted": "nodes" if dataset.info.one_graph else "graphs",
        "graphs": graphs,
        "graphs_an_epoch": whole.train.numel(),
        "batches": int(trainer.num_training_batches),
        "epochs": [six_digits(seconds) for seconds in watch.training],
        "seconds": _seconds(watch, phases, whole, parts),
        "graphs_per_second": six_digits(graphs / watch.seconds),
        "peak_memory_mb": watch.megabytes and round(watch.megabytes, 1),
        "kernels": None,
        **environment(device),
    }


def _parts(
    config: RunConfig, dataset: Dataset, options: BenchOptions
) -> tuple[Parts, Parts]:
    whole = choose_parts(dataset, config.data.protocol, config.data.fold)
    total = whole.train.numel()
    graphs = total if options.graphs is None else options.graphs
    if not 2 <= graphs <= total:
        what = "nodes" if dataset.info.one_graph else "graphs"
        raise OptionError(
            f"graphs is {graphs}, but {config.data.name} has {total} training {what}; "
            f"give 2 to {total}."
        )
    few = max(1, whole.validation.numel() * graphs // total)
    part = replace(whole, train=whole.train[:graphs], validation=whole.validation[:few])
    return whole, part


def _warm_up(
    config: RunConfig,
    dataset: Dataset,
    machine: Machine,
    options: BenchOptions,
    parts: Parts,
) -> int:
    """Return the number of untimed epochs: enough for `WARM_BATCHES` captured steps."""
    total = parts.train.numel()
    size = config.train.batch_size or total
    if dataset.info.one_graph:
        size = min(size, total)
    sizes = BatchSampler(parts.train, size).sizes
    # Batches of more than `size` graphs are not captured. Smaller batches are captured
    # only if there are also batches of exactly `size` graphs.
    if size not in sizes or not is_captured(config, dataset, parts, machine):
        return options.warm_up
    captured = sum(graphs <= size for graphs in sizes)
    return max(options.warm_up, math.ceil(WARM_BATCHES / captured))


def _seconds(
    watch: Stopwatch, phases: PhaseTimes, whole: Parts, parts: Parts
) -> dict[str, float]:
    scale = whole.train.numel() / parts.train.numel()
    seconds = {"epoch": watch.seconds} | phases.seconds
    scaled = {name: six_digits(value * scale) for name, value in seconds.items()}
    if watch.evaluation:
        scale = whole.validation.numel() / parts.validation.numel()
        scaled["evaluation"] = six_digits(median(watch.evaluation) * scale)
    return scaled


Growing = Literal["nodes", "hops", "channels", "coverage"]
RANGES: dict[Growing, tuple[int, ...]] = {
    "nodes": (16, 32, 64, 128, 256),
    "hops": (1, 2, 3, 4),
    "channels": (32, 64, 128, 256),
    "coverage": (1, 2, 3, 4, 5),
}
SETTINGS: dict[Growing, str] = {
    "hops": "model.subgraphs.num_hops",
    "channels": "model.channels",
    "coverage": "model.drop.min_coverage",
}
"""The option that sets each quantity. "nodes" has none, since graphs are generated."""
DEGREE, DISTINCT, GRAPHS = 4, 32, 512
"""Node degree, largest number of distinct graphs, and default number of graphs."""


def grow(
    what: Growing,
    config: RunConfig,
    load: Callable[[], Dataset],
    machine: Machine,
    options: BenchOptions,
    values: Sequence[int] = (),
) -> Iterator[Record]:
    """Benchmark a run once for each value of the quantity `what`; yield the records."""
    check_growing(what, config)
    dataset, notify = None if what == "nodes" else load(), options.notify
    for value in values or RANGES[what]:
        graphs = dataset or regular_graphs(value)

        def prefixed(text: str, label: str = f"{what} {value}") -> None:
            notify(f"{label}, {text}")

        options = replace(options, notify=prefixed)
        record = bench(_changed(config, what, value), graphs, machine, options)
        yield record | {"kind": "growth", "what": what, "value": value}


def measure(
    config: RunConfig,
    load: Callable[[], Dataset],
    machine: Machine,
    options: BenchOptions,
    growing: Growing | None = None,
    compare: bool = False,
) -> Iterator[Record]:
    """Yield the record of a benchmark, or several records if `growing` or `compare`."""
    if growing is not None:
        yield from grow(growing, config, load, machine, options)
    elif not compare:
        yield bench(config, load(), machine, options)
    else:
        dataset = load()
        yield from bench_both(config, dataset, machine, options)
        if machine.is_gpu and config.train.precision == "32":
            narrow = change(config, {"train.precision": "bf16"})
            yield bench(narrow, dataset, machine, options)


def _changed(config: RunConfig, what: Growing, value: int) -> RunConfig:
    if what != "nodes":
        return change(config, {SETTINGS[what]: value})
    data = DataConfig(name=f"regular-{value}")
    return change(replace(config, data=data), {"train.loss": None})


def check_growing(what: Growing, config: RunConfig) -> None:
    """Raise `OptionError` if `what`, such as "hops", cannot vary in the model."""
    name = config.model.name
    form = parse_name(name)
    extractor = config.model.extractor_for(form.kind)
    if what == "hops" and not (form.uplifted and isinstance(extractor, EgoNets)):
        raise OptionError(
            f"{name} with {extractor} has no hops to vary; use a model with the suffix "
            "-ak or -ak+, and model.subgraphs.kind=egonets."
        )
    if what == "coverage" and not form.sampled:
        raise OptionError(
            f"{name} has no coverage to vary; use a model with the suffix -s."
        )


def regular_graphs(num_nodes: int, num_graphs: int = GRAPHS) -> Dataset:
    """Generate random 4-regular graphs of one size; at most 32 of them are distinct."""
    distinct = [
        nx.random_regular_graph(DEGREE, num_nodes, seed=seed)
        for seed in range(min(DISTINCT, num_graphs))
    ]
    store = from_networkx(distinct).subset(torch.arange(num_graphs) % len(distinct))
    x = torch.zeros(num_graphs * num_nodes, 1, dtype=torch.long)
    store = replace(store, x=x, y=torch.arange(num_graphs) / num_graphs)
    info = DatasetInfo(
        name=f"regular-{num_nodes}",
        title=f"4-regular graphs, {num_nodes} nodes",
        task="regression",
        metric="mae",
        num_outputs=1,
        node_features=Categorical((1,)),
        edge_features=None,
        source="generated",
    )
    # The last two graphs are for validation and test, all others for training.
    split = torch.zeros(num_graphs, dtype=torch.long)
    split[-2:] = torch.tensor([1, 2])
    return Dataset(info, store, split)

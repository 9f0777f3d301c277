"""Benchmark the training epochs of a run: seconds by phase, memory and kernels."""

import gc
import math
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from lightning.pytorch import Callback, Trainer

from gnnak.datasets.record import Dataset
from gnnak.errors import OptionError, TrainingError
from gnnak.loading.order import BatchSampler
from gnnak.training.callbacks import RestoreSignals
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.measure.meters import (
    KernelTimes,
    Notify,
    PhaseTimes,
    Stopwatch,
    kernels_share,
)
from gnnak.training.prepared import is_captured, prepare
from gnnak.training.processes.machine import (
    Machine,
    make_trainer,
    matmul_precision,
    quiet_lightning,
)
from gnnak.training.protocols import Parts, choose_parts
from gnnak.training.records.results import Record, environment, six_digits
from gnnak.training.run import run_title
from gnnak.training.timing import Clock
from gnnak.typing import check_count


@dataclass(frozen=True)
class Meters:
    """The callbacks of a benchmark, which measure the run and store the results."""

    watch: Stopwatch
    """Measures the seconds and the peak memory of training epochs."""
    phases: PhaseTimes
    """Measures the seconds of each phase of a training step: forward, backward, ..."""
    kernels: KernelTimes | None = None
    """Profiles GPU kernels in one additional epoch; None = no profiling."""


def short_run(
    config: RunConfig,
    dataset: Dataset,
    parts: Parts,
    machine: Machine,
    meters: Meters,
    evaluate: bool = False,
) -> Trainer:
    """Train for a few epochs, to measure time and memory.

    Trains like `gnnak.training.run.run`, but neither scores the test graphs nor writes
    any files.

    Args:
        config: The options of the run; `train.epochs` is ignored.
        dataset: The data set.
        parts: Which graphs are for training and validation.
        machine: The device and how to save memory.
        meters: The callbacks that measure the run and store the results. The number of
            epochs is the number of epochs that these callbacks need.
        evaluate: Whether to score the validation graphs after every epoch.

    Returns:
        The Lightning trainer, after training.
    """
    _free_memory()
    watch, kernels = meters.watch, meters.kernels
    epochs = watch.warm_up + watch.epochs + (kernels is not None)
    config = change(config, {"train.epochs": epochs})
    clock = Clock()
    task, data, captured, _ = prepare(config, dataset, parts, machine, clock)
    callbacks: list[Callback] = [watch, meters.phases, RestoreSignals()]
    if kernels is not None:
        callbacks.append(kernels)
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
    return trainer


def _free_memory() -> None:
    """Free memory of earlier runs: collect garbage and empty PyTorch's CUDA cache."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


WARM_BATCHES = 48
"""Least number of batches to train on before timing, if training steps are captured as
CUDA graphs. By then, almost every batch shape has its CUDA graph."""


@dataclass(frozen=True)
class BenchOptions:
    """Options of a benchmark: how much to train, and what to measure."""

    graphs: int | None = None
    """Number of training graphs to use; None = all. With fewer graphs, the measured
    seconds are scaled up to an epoch with all training graphs."""
    epochs: int = 3
    """Number of timed epochs; the result is the median of their times."""
    warm_up: int = 1
    """Least number of untimed epochs at the start, since the first steps are slow. If
    training steps are captured as CUDA graphs and an epoch has few batches, more
    untimed epochs are run."""
    profile: bool = False
    """Whether to also profile GPU kernels, in a separate run after the timing."""
    evaluation: bool = False
    """Whether to also time the evaluation on the validation graphs."""

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs, least=1)
        check_count("warm_up", self.warm_up)
        if self.graphs is not None:
            check_count("graphs", self.graphs, least=2)


def bench(
    config: RunConfig,
    dataset: Dataset,
    machine: Machine | None = None,
    options: BenchOptions | None = None,
    notify: Notify | None = None,
) -> Record:
    """Train for a few epochs and measure time and memory.

    If `options.profile` is True, GPU kernels are profiled afterwards in a separate
    short run. Profiling comes last because PyTorch's profiler, once started, slows down
    kernel launches for the rest of the process.

    Args:
        config: The options of the run; `train.epochs` is ignored.
        dataset: The data set.
        machine: The device and how to save memory; None = the first GPU, or the CPU if
            there is no GPU.
        options: Number of graphs and epochs, and what to measure; None = the defaults.
        notify: Called with a text such as "epoch 2 of 4"; None = not called.

    Returns:
        The record of the benchmark: a dict of options and results, in which the entry
        `kind` is "bench".

    Raises:
        OptionError: If `options.graphs` exceeds the number of training graphs.
        TrainingError: If the run needs more memory than the GPU has.
    """
    machine, options = machine or Machine(), options or BenchOptions()
    record = _timed(config, dataset, machine, options, notify)
    if not options.profile:
        return record
    return with_kernels(record, config, dataset, machine, options, notify)


def bench_both(
    config: RunConfig,
    dataset: Dataset,
    machine: Machine | None = None,
    options: BenchOptions | None = None,
    notify: Notify | None = None,
) -> list[Record]:
    """Benchmark the fast backend (fused kernels, CUDA graphs) and plain PyTorch.

    The arguments are those of `bench`. If `options.profile` is True, GPU kernels are
    profiled after both backends have been timed.

    Returns:
        The record (dict of results) of the fast backend, and the record of plain
        PyTorch. The entry `ratio` of the first record is the seconds per epoch of plain
        PyTorch divided by those of the fast backend.
    """
    machine, options = machine or Machine(), options or BenchOptions()
    machines = [replace(machine, fast=fast) for fast in (True, False)]
    records = [_timed(config, dataset, each, options, notify) for each in machines]
    fast, plain = (record["seconds"]["epoch"] for record in records)
    records[0]["ratio"] = six_digits(plain / fast)
    if not options.profile:
        return records
    return [
        with_kernels(record, config, dataset, each, options, notify)
        for record, each in zip(records, machines, strict=True)
    ]


def with_kernels(
    record: Record,
    config: RunConfig,
    dataset: Dataset,
    machine: Machine,
    options: BenchOptions,
    notify: Notify | None = None,
) -> Record:
    """Profile GPU kernels and add the results to the record of a benchmark.

    Returns a copy of the record with the entry `kernels`; without a GPU, returns the
    record unchanged.

    Args:
        record: The record (dict of results) that `bench` returned for the same options.
        config: The options of the run.
        dataset: The data set.
        machine: The device and how to save memory.
        options: Number of graphs, and least number of epochs to train before profiling.
        notify: Called with a text such as "epoch 2 of 4"; None = not called.
    """
    if not machine.is_gpu:
        return record
    whole = choose_parts(dataset, config.data.protocol, config.data.fold)
    parts = _part(whole, options, config.data.name)
    warm_up = _warm_up(config, dataset, machine, options, parts)
    kernels = KernelTimes(warm_up)
    meters = Meters(Stopwatch(warm_up, 0, notify), PhaseTimes(), kernels)
    _short_run(config, dataset, parts, machine, meters)
    step_seconds = median(record["epochs"]) / record["batches"]
    return record | {"kernels": kernels_share(kernels, step_seconds)}


def _timed(
    config: RunConfig,
    dataset: Dataset,
    machine: Machine,
    options: BenchOptions,
    notify: Notify | None,
) -> Record:
    """Time a run and return its record as `bench` does, without profiling kernels."""
    whole = choose_parts(dataset, config.data.protocol, config.data.fold)
    parts = _part(whole, options, config.data.name)
    warm_up = _warm_up(config, dataset, machine, options, parts)
    meters = Meters(Stopwatch(warm_up, options.epochs, notify), PhaseTimes())
    trainer = _short_run(config, dataset, parts, machine, meters, options.evaluation)
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
        **_figures(meters, trainer, whole, parts),
    } | environment(trainer.strategy.root_device)


def _short_run(
    config: RunConfig,
    dataset: Dataset,
    parts: Parts,
    machine: Machine,
    meters: Meters,
    evaluate: bool = False,
) -> Trainer:
    """Call `short_run`; raise `TrainingError` if the GPU runs out of memory."""
    try:
        return short_run(config, dataset, parts, machine, meters, evaluate)
    except torch.OutOfMemoryError as error:
        raise TrainingError(
            f"{run_title(config)} needs more memory than the GPU has; add --recompute "
            "or lower train.batch_size."
        ) from error


def _part(whole: Parts, options: BenchOptions, name: str) -> Parts:
    """Reduce the training graphs to the first `options.graphs`, for a short benchmark.

    The validation graphs are reduced by the same factor. Raises `OptionError` if the
    data set `name` has fewer training graphs.
    """
    total = whole.train.numel()
    graphs = total if options.graphs is None else options.graphs
    if not 2 <= graphs <= total:
        raise OptionError(
            f"graphs is {graphs}, but {name} has {total} training graphs; give 2 to "
            f"{total} graphs."
        )
    few = max(1, whole.validation.numel() * graphs // total)
    return replace(whole, train=whole.train[:graphs], validation=whole.validation[:few])


def _warm_up(
    config: RunConfig,
    dataset: Dataset,
    machine: Machine,
    options: BenchOptions,
    parts: Parts,
) -> int:
    """Return the number of epochs to train before the timing starts.

    The number is `options.warm_up`, or higher if training steps are captured as CUDA
    graphs and an epoch has few batches.
    """
    size = config.train.batch_size
    sizes = BatchSampler(parts.train, size).sizes
    # Batches of more than `size` graphs are not captured. Smaller batches are captured
    # only if there are also batches of exactly `size` graphs.
    if size not in sizes or not is_captured(config, dataset, parts, machine):
        return options.warm_up
    captured = sum(graphs <= size for graphs in sizes)
    return max(options.warm_up, math.ceil(WARM_BATCHES / captured))


def _figures(meters: Meters, trainer: Trainer, whole: Parts, parts: Parts) -> Record:
    """Return the measured part of a record: sizes, seconds and peak memory."""
    watch = meters.watch
    graphs, batches = parts.train.numel(), int(trainer.num_training_batches)
    module = trainer.lightning_module
    return {
        "accelerator": trainer.strategy.root_device.type,
        "parameters": sum(p.numel() for p in module.parameters()),
        "graphs": graphs,
        "graphs_an_epoch": whole.train.numel(),
        "batches": batches,
        "epochs": [six_digits(seconds) for seconds in watch.training],
        "seconds": _seconds(watch, meters.phases, whole, parts),
        "graphs_per_second": six_digits(graphs / watch.seconds),
        "peak_memory_mb": watch.megabytes and round(watch.megabytes, 1),
        "kernels": None,
    }


def _seconds(
    watch: Stopwatch, phases: PhaseTimes, whole: Parts, parts: Parts
) -> dict[str, float]:
    """Return the seconds of an epoch and of each phase of the epoch.

    The seconds were measured on the graphs `parts`, which may be a subset of all graphs
    `whole`; they are scaled up to all graphs.
    """
    scale = whole.train.numel() / parts.train.numel()
    seconds = {"epoch": watch.seconds} | phases.seconds
    scaled = {name: six_digits(value * scale) for name, value in seconds.items()}
    if watch.evaluation:
        scale = whole.validation.numel() / parts.validation.numel()
        scaled["evaluation"] = six_digits(median(watch.evaluation) * scale)
    return scaled

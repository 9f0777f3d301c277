"""What an epoch costs: seconds by phase, memory, kernels, as training runs it."""

import math
from dataclasses import dataclass, replace
from statistics import median

import torch
from lightning.pytorch import Trainer

from gnnak.datasets.record import Dataset
from gnnak.errors import OptionError, TrainingError
from gnnak.loading.sampler import BatchSampler
from gnnak.training.config.run_config import RunConfig
from gnnak.training.measure.kernels import KernelTimes, kernels_share
from gnnak.training.measure.phases import PhaseTimes
from gnnak.training.measure.rehearsal import Gauges, rehearse
from gnnak.training.measure.stopwatch import Stopwatch, Tell
from gnnak.training.prepared import is_captured
from gnnak.training.processes.machine import Machine
from gnnak.training.protocols import Parts, choose_parts
from gnnak.training.records.results import Record, environment, short
from gnnak.training.run import run_title
from gnnak.typing import check_count

WARM_BATCHES = 48
"""By so many batches, steps were captured for about all sizes of batches."""


@dataclass(frozen=True)
class BenchOptions:
    """How much is measured."""

    graphs: int | None = None
    """Training graphs; None = all. Seconds of a part are scaled to all."""
    epochs: int = 3
    """Epochs that are timed; their median counts."""
    warm_up: int = 1
    """Epochs before them, at least: the first steps of a program are slow. Where steps
    are captured, there are more of them if each has few batches."""
    profile: bool = False
    """Whether to list the kernels of a GPU and their share of the time."""
    evaluation: bool = False
    """Whether to time a pass over the validation graphs, too."""

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
    tell: Tell | None = None,
) -> Record:
    """Train for a few epochs and measure them.

    Kernels are listed in a training of their own, afterwards: a profiler that is only
    there makes launches slower, for the rest of the process.

    Args:
        config: The run; its epochs are not read.
        dataset: Its graphs.
        machine: Device and memory; the first GPU, or the CPU, if not given.
        options: How much is measured.
        tell: Told what is going on; None = nobody is told.

    Returns:
        A record of kind "bench".

    Raises:
        OptionError: If there are not as many training graphs as asked for.
        TrainingError: If the memory of the GPU does not suffice.
    """
    machine, options = machine or Machine(), options or BenchOptions()
    record = _timed(config, dataset, machine, options, tell)
    if not options.profile:
        return record
    return with_kernels(record, config, dataset, machine, options, tell)


def bench_both(
    config: RunConfig,
    dataset: Dataset,
    machine: Machine | None = None,
    options: BenchOptions | None = None,
    tell: Tell | None = None,
) -> list[Record]:
    """Measure the fast path, then the plain one; the kernels of both come last.

    Returns:
        The record of each; `ratio` of the first is plain seconds by fast ones.
    """
    machine, options = machine or Machine(), options or BenchOptions()
    machines = [replace(machine, fast=fast) for fast in (True, False)]
    records = [_timed(config, dataset, each, options, tell) for each in machines]
    fast, plain = (record["seconds"]["epoch"] for record in records)
    records[0]["ratio"] = short(plain / fast)
    if not options.profile:
        return records
    return [
        with_kernels(record, config, dataset, each, options, tell)
        for record, each in zip(records, machines, strict=True)
    ]


def with_kernels(
    record: Record,
    config: RunConfig,
    dataset: Dataset,
    machine: Machine,
    options: BenchOptions,
    tell: Tell | None = None,
) -> Record:
    """A record of `bench`, and the kernels that a GPU was busy with; else as it is.

    Args:
        record: What was measured.
        config: Of what, as all that follows.
        dataset: Its graphs.
        machine: Device and memory.
        options: How much was measured.
        tell: Told what is going on.
    """
    if not machine.is_gpu:
        return record
    whole = choose_parts(dataset, config.data.protocol, config.data.fold)
    parts = _part(whole, options, config.data.name)
    warm_up = _warm_up(config, dataset, machine, options, parts)
    kernels = KernelTimes(warm_up)
    gauges = Gauges(Stopwatch(warm_up, 0, tell), PhaseTimes(), kernels)
    _rehearse(config, dataset, parts, machine, gauges)
    step_seconds = median(record["epochs"]) / record["batches"]
    return record | {"kernels": kernels_share(kernels, step_seconds)}


def _timed(
    config: RunConfig,
    dataset: Dataset,
    machine: Machine,
    options: BenchOptions,
    tell: Tell | None,
) -> Record:
    """What `bench` gives, without kernels."""
    whole = choose_parts(dataset, config.data.protocol, config.data.fold)
    parts = _part(whole, options, config.data.name)
    warm_up = _warm_up(config, dataset, machine, options, parts)
    gauges = Gauges(Stopwatch(warm_up, options.epochs, tell), PhaseTimes())
    trainer = _rehearse(config, dataset, parts, machine, gauges, options.evaluation)
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
        **_figures(gauges, trainer, whole, parts),
    } | environment(trainer.strategy.root_device)


def _rehearse(
    config: RunConfig,
    dataset: Dataset,
    parts: Parts,
    machine: Machine,
    gauges: Gauges,
    evaluate: bool = False,
) -> Trainer:
    """`rehearse`, with a sentence where the memory of the GPU does not suffice."""
    try:
        return rehearse(config, dataset, parts, machine, gauges, evaluate)
    except torch.OutOfMemoryError as error:
        raise TrainingError(
            f"{run_title(config)} takes more memory than the GPU has; add --recompute "
            "or lower train.batch_size."
        ) from error


def _part(whole: Parts, options: BenchOptions, name: str) -> Parts:
    """The training graphs asked for, and as large a share of the validation graphs."""
    total = whole.train.numel()
    graphs = total if options.graphs is None else options.graphs
    if not 2 <= graphs <= total:
        raise OptionError(
            f"{graphs} training graphs are asked for, but {name} has {total}; give 2 "
            f"to {total} graphs."
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
    """Epochs before those that are timed."""
    size = config.train.batch_size
    sizes = BatchSampler(parts.train, size).sizes
    # One that is larger than the others is not captured, nor are small ones alone.
    if size not in sizes or not is_captured(config, dataset, parts, machine):
        return options.warm_up
    captured = sum(graphs <= size for graphs in sizes)
    return max(options.warm_up, math.ceil(WARM_BATCHES / captured))


def _figures(gauges: Gauges, trainer: Trainer, whole: Parts, parts: Parts) -> Record:
    """What the gauges show."""
    watch = gauges.watch
    graphs, batches = parts.train.numel(), int(trainer.num_training_batches)
    module = trainer.lightning_module
    return {
        "accelerator": trainer.strategy.root_device.type,
        "parameters": sum(p.numel() for p in module.parameters()),
        "graphs": graphs,
        "graphs_an_epoch": whole.train.numel(),
        "batches": batches,
        "epochs": [short(seconds) for seconds in watch.training],
        "seconds": _seconds(watch, gauges.phases, whole, parts),
        "graphs_per_second": short(graphs / watch.seconds),
        "peak_memory_mb": watch.megabytes and round(watch.megabytes, 1),
        "kernels": None,
    }


def _seconds(
    watch: Stopwatch, phases: PhaseTimes, whole: Parts, parts: Parts
) -> dict[str, float]:
    """Seconds of an epoch and of its phases, scaled to all graphs."""
    scale = whole.train.numel() / parts.train.numel()
    seconds = {"epoch": watch.seconds} | phases.seconds
    scaled = {name: short(value * scale) for name, value in seconds.items()}
    if watch.evaluation:
        scale = whole.validation.numel() / parts.validation.numel()
        scaled["evaluation"] = short(median(watch.evaluation) * scale)
    return scaled

"""Train for a few epochs, to measure time and memory."""

import gc
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from lightning.pytorch import Callback, Trainer

from gnnak.datasets.record import Dataset
from gnnak.training.callbacks.signals import RestoreSignals
from gnnak.training.callbacks.timing import Clock
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.measure.kernels import KernelTimes
from gnnak.training.measure.phases import PhaseTimes
from gnnak.training.measure.stopwatch import Stopwatch
from gnnak.training.prepared import prepare
from gnnak.training.processes.machine import (
    Machine,
    make_trainer,
    matmul_precision,
    quiet_lightning,
)
from gnnak.training.protocols import Parts


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

"""A few epochs of training, run to take their measure."""

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
class Gauges:
    """What takes the measure of a rehearsal."""

    watch: Stopwatch
    """Of epochs."""
    phases: PhaseTimes
    """Of the phases of a step."""
    kernels: KernelTimes | None = None
    """Of the kernels of a GPU; None = they are not profiled."""


def rehearse(
    config: RunConfig,
    dataset: Dataset,
    parts: Parts,
    machine: Machine,
    gauges: Gauges,
    evaluate: bool = False,
) -> Trainer:
    """Train as `run` does, for as many epochs as the gauges need; nothing is kept.

    Args:
        config: The run; its epochs are not read.
        dataset: Its graphs.
        parts: Which of them are for what.
        machine: Device and memory.
        gauges: What is measured; they hold it afterwards.
        evaluate: Whether there is a validation after every epoch.
    """
    _free_memory()
    watch, kernels = gauges.watch, gauges.kernels
    epochs = watch.warm_up + watch.epochs + (kernels is not None)
    config = change(config, {"train.epochs": epochs})
    clock = Clock()
    task, data, captured, _ = prepare(config, dataset, parts, machine, clock)
    callbacks: list[Callback] = [watch, gauges.phases, RestoreSignals()]
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
    """Give back what earlier measurements left."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()

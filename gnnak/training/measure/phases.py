"""Time the phases of a training step: data, forward, backward, optimiser.

Written by hand because Lightning's profilers do not synchronise with the device between
phases.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from gnnak.loading.items import Item
from gnnak.training.data import GraphData
from gnnak.training.measure.stopwatch import synchronised_time
from gnnak.training.module import GraphTask
from gnnak.training.step import backward, clip_gradients

PHASES = ("data", "forward", "backward", "optimiser")
"""The phases of a training step, in order; `data` is the assembly of the batch."""
WARM_UP, MOST = 2, 20
"""Number of untimed training steps at the start, and largest number of timed steps."""


class PhaseTimes(Callback):
    """Callback that times the phases of training steps.

    After training, the callback runs some further steps and synchronises with the
    device after every phase. These steps are never captured as CUDA graphs. If the
    training itself used CUDA graphs, its steps were faster than the timed ones; then
    only the ratios between the phases are meaningful.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        """Seconds per epoch of each phase; empty before the end of the training."""

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        """After training, run some more steps, time their phases and set `seconds`."""
        assert isinstance(module, GraphTask)
        module.train()
        timed = list(_steps(trainer, module))[WARM_UP:]
        batches = int(trainer.num_training_batches)
        for phase in PHASES:
            mean = sum(step[phase] for step in timed) / len(timed)
            self.seconds[phase] = mean * batches


def _steps(trainer: Trainer, task: GraphTask) -> Iterator[dict[str, float]]:
    """Run training steps, and yield after each step the seconds of its phases.

    If the batches of an epoch do not suffice, the loader starts another epoch.
    """
    data = trainer.datamodule  # type: ignore[attr-defined]
    assert isinstance(data, GraphData)
    device = trainer.strategy.root_device
    batches = iter(data.train_dataloader())
    for _ in range(WARM_UP + min(MOST, int(trainer.num_training_batches))):
        taken: dict[str, float] = {}
        with _timed("data", taken, device):
            item = next(batches, None)
            if item is None:
                batches = iter(data.train_dataloader())
                item = next(batches)
        _take_step(trainer, task, item, taken)
        yield taken


def _take_step(
    trainer: Trainer, task: GraphTask, item: Item, taken: dict[str, float]
) -> None:
    device, optimiser = trainer.strategy.root_device, trainer.optimizers[0]
    with (
        _timed("forward", taken, device),
        trainer.precision_plugin.train_step_context(),
    ):
        loss = task.loss_of(item)
    with _timed("backward", taken, device):
        backward(loss)
    with _timed("optimiser", taken, device):
        clip_gradients(optimiser, task.config.train.clip)
        optimiser.step()
        optimiser.zero_grad()


@contextmanager
def _timed(phase: str, taken: dict[str, float], device: torch.device) -> Iterator[None]:
    begin = synchronised_time(device)
    yield
    taken[phase] = synchronised_time(device) - begin

"""A training step, phase by phase: data, forward, backward, optimiser."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.nn.utils import clip_grad_norm_

from gnnak.loading.items import Item
from gnnak.training.data import GraphData
from gnnak.training.measure.stopwatch import wait
from gnnak.training.module import GraphTask
from gnnak.training.step import backward

PHASES = ("data", "forward", "backward", "optimiser")
WARM_UP, MOST = 2, 20
"""Steps that go by before any is timed, and how many are timed at most."""


class PhaseTimes(Callback):
    """When training has ended, takes some more steps, waiting after every phase.

    The steps are not captured, even where training captures its own: phases then take
    longer together than a step of an epoch does. What they are good for is their
    shares.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        """Seconds an epoch, by phase."""

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Take the steps."""
        assert isinstance(module, GraphTask)
        module.train()
        timed = list(_steps(trainer, module))[WARM_UP:]
        batches = int(trainer.num_training_batches)
        for phase in PHASES:
            mean = sum(step[phase] for step in timed) / len(timed)
            self.seconds[phase] = mean * batches


def _steps(trainer: Trainer, task: GraphTask) -> Iterator[dict[str, float]]:
    """Seconds of each phase of some steps; short epochs are run through again."""
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
        if task.config.train.clip is not None:
            clip_grad_norm_(task.network.parameters(), task.config.train.clip)
        optimiser.step()
        optimiser.zero_grad()


@contextmanager
def _timed(phase: str, taken: dict[str, float], device: torch.device) -> Iterator[None]:
    begin = wait(device)
    yield
    taken[phase] = wait(device) - begin

"""Measure seconds, phases, peak memory and GPU kernels of training steps."""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.autograd import DeviceType
from torch.profiler import profile

from gnnak.device import peak_megabytes, reset_peak
from gnnak.loading.items import Item
from gnnak.loading.prefetch import prefetching_paused
from gnnak.loop.step import backward, clip_gradients
from gnnak.training.data import GraphData
from gnnak.training.module import GraphTask

Notify = Callable[[str], None]
"""A function that is called with a short text about the progress of a benchmark."""


def synchronised_time(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class Stopwatch(Callback):
    """Callback that measures seconds and peak memory of epochs, and of evaluations."""

    def __init__(self, warm_up: int, epochs: int, notify: Notify | None = None) -> None:
        self.warm_up, self.epochs, self.notify = warm_up, epochs, notify
        self.training: list[float] = []
        self.evaluation: list[float] = []
        self.megabytes: float | None = None
        self._since: float | None = None

    @property
    def seconds(self) -> float:
        return median(self.training)

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._since = synchronised_time(trainer.strategy.root_device)

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        reset_peak(trainer.strategy.root_device)
        if self.notify is not None:
            epoch, total = trainer.current_epoch + 1, trainer.max_epochs
            kind = " (warm-up)" if epoch <= self.warm_up else ""
            self.notify(f"epoch {epoch} of {total}{kind}")

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._end_training(trainer)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        now = synchronised_time(trainer.strategy.root_device)
        if self._is_timed(trainer) and self._since is not None:
            self.evaluation.append(now - self._since)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        if len(self.training) <= trainer.current_epoch - self.warm_up:
            self._end_training(trainer)
        self._since = synchronised_time(trainer.strategy.root_device)

    def _end_training(self, trainer: Trainer) -> None:
        device = trainer.strategy.root_device
        now = synchronised_time(device)
        if self._is_timed(trainer) and self._since is not None:
            self.training.append(now - self._since)
            peak = peak_megabytes(device)
            if peak is not None:
                self.megabytes = max(peak, self.megabytes or 0.0)
        self._since = now

    def _is_timed(self, trainer: Trainer) -> bool:
        return 0 <= trainer.current_epoch - self.warm_up < self.epochs


PHASES = ("data", "forward", "backward", "optimiser")
"""The phases of a training step, in order; `data` is the assembly of the batch."""
WARM_UP, MOST = 2, 20
"""Number of untimed training steps at the start, and largest number of timed steps."""


class PhaseTimes(Callback):
    """Callback that times the phases of some uncaptured steps after training."""

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
    """Run training steps; yield the seconds of each step, by phase."""
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


STEPS, TOP, WIDTH = 10, 12, 60
"""Numbers of profiled steps, reported kernels and characters of a kernel's name."""


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

    @property
    def microseconds(self) -> float:
        return sum(kernel.microseconds for kernel in self.kernels)

    def on_fit_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Start and stop the profiler once: it then sees kernels of CUDA graphs."""
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
    return {
        "share": found.microseconds / 1e6 / step_seconds,
        "microseconds": found.microseconds,
        "calls": sum(kernel.calls for kernel in found.kernels),
        "top": [vars(kernel) for kernel in found.kernels[:TOP]],
    }

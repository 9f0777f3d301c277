"""Profile the GPU kernels of training steps.

By hand: Lightning's `PyTorchProfiler` stays on for the whole run and slows it down.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch.autograd import DeviceType
from torch.profiler import profile

from gnnak.loading.prefetch import prefetching_paused
from gnnak.training.measure.stopwatch import synchronised_time

STEPS, TOP, WIDTH = 10, 12, 60
"""Number of profiled steps, of listed kernels, and of characters of their names."""


@dataclass(frozen=True)
class KernelTime:
    """Launches and time of one GPU kernel in a training step."""

    name: str
    """Its name, shortened."""
    calls: float
    """Launches per step."""
    microseconds: float
    """Time per step, summed over its launches."""


class KernelTimes(Callback):
    """Profiles the first steps of one epoch, then stops the training.

    Prefetching is paused while the profiler starts and stops: the process has crashed
    when another thread used the GPU at that time.

    Args:
        epoch: The number of the epoch, from 0.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch, self.steps = epoch, 0
        self.kernels: list[KernelTime] = []
        """All kernels, by time, longest first."""
        self._profile: Any = None

    @property
    def microseconds(self) -> float:
        """Time of all kernels per step."""
        return sum(kernel.microseconds for kernel in self.kernels)

    def on_fit_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Start and stop the profiler once.

        CUDA graphs that were captured before its first start are not profiled.
        """
        with prefetching_paused(), profile(acc_events=True):
            pass

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Start the profiler, if this is the epoch."""
        if trainer.current_epoch == self.epoch:
            synchronised_time(trainer.strategy.root_device)
            with prefetching_paused():
                self._profile = profile(acc_events=True).__enter__()

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, *more: Any
    ) -> None:
        """Count the step; stop profiler and training after the last one."""
        if self._profile is not None:
            self.steps += 1
            if self.steps == STEPS:
                trainer.should_stop = True
                self._end(trainer)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Stop the profiler if the epoch had fewer steps."""
        if self._profile is not None:
            self._end(trainer)

    def _end(self, trainer: Trainer) -> None:
        """Stop the profiler and read its kernels."""
        synchronised_time(trainer.strategy.root_device)
        with prefetching_paused():
            self._profile.__exit__(None, None, None)
        self.kernels = kernel_times(self._profile.key_averages(), self.steps)
        self._profile = None


def kernel_times(events: Iterable[Any], steps: int) -> list[KernelTime]:
    """Return the kernels among the events of a profile, by time, longest first.

    Args:
        events: The result of `profile.key_averages()`.
        steps: Number of profiled steps.
    """
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
    """Return the share of a step's time in which kernels run, and the longest ones.

    Args:
        found: The profiled kernels.
        step_seconds: Seconds per step without the profiler.
    """
    return {
        "share": found.microseconds / 1e6 / step_seconds,
        "microseconds": found.microseconds,
        "calls": sum(kernel.calls for kernel in found.kernels),
        "top": [vars(kernel) for kernel in found.kernels[:TOP]],
    }

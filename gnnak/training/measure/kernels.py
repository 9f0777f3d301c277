"""Profile the GPU kernels of training steps.

Written by hand because Lightning's `PyTorchProfiler` stays on for the whole run and
slows the run down.
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
"""Number of training steps to profile, largest number of kernels to report, and largest
number of characters of a kernel's name."""


@dataclass(frozen=True)
class KernelTime:
    """How often one GPU kernel is launched in a training step, and how long it runs."""

    name: str
    """The name of the kernel, shortened by `short_name`."""
    calls: float
    """Mean number of launches per training step."""
    microseconds: float
    """Mean microseconds per training step, summed over all launches in the step."""


class KernelTimes(Callback):
    """Callback that profiles the first steps of one epoch, then stops the training.

    Prefetching of batches is paused while the profiler starts and stops, because the
    process may crash if another thread uses the GPU at that time.

    Args:
        epoch: The number of the epoch to profile, from 0.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch, self.steps = epoch, 0
        self.kernels: list[KernelTime] = []
        """The times of all kernels, the longest time first; empty before profiling."""
        self._profile: Any = None

    @property
    def microseconds(self) -> float:
        """Mean microseconds per training step, summed over all kernels."""
        return sum(kernel.microseconds for kernel in self.kernels)

    def on_fit_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Start and stop the profiler once, before any CUDA graph is captured.

        The profiler does not see the kernels of CUDA graphs that were captured before
        the profiler was first started.
        """
        with prefetching_paused(), profile(acc_events=True):
            pass

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Start the profiler if this is the epoch to profile."""
        if trainer.current_epoch == self.epoch:
            synchronised_time(trainer.strategy.root_device)
            with prefetching_paused():
                self._profile = profile(acc_events=True).__enter__()

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, *more: Any
    ) -> None:
        """Stop the profiler and the training after `STEPS` profiled steps."""
        if self._profile is not None:
            self.steps += 1
            if self.steps == STEPS:
                trainer.should_stop = True
                self._end(trainer)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Stop the profiler if the epoch had fewer than `STEPS` training steps."""
        if self._profile is not None:
            self._end(trainer)

    def _end(self, trainer: Trainer) -> None:
        """Stop the profiler and store the times of the kernels in `kernels`."""
        synchronised_time(trainer.strategy.root_device)
        with prefetching_paused():
            self._profile.__exit__(None, None, None)
        self.kernels = kernel_times(self._profile.key_averages(), self.steps)
        self._profile = None


def kernel_times(events: Iterable[Any], steps: int) -> list[KernelTime]:
    """Return the time of each GPU kernel in a profile, the longest time first.

    Args:
        events: The result of `profile.key_averages()`. Events other than GPU
            kernels are ignored.
        steps: Number of profiled training steps, to compute means per step.
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

    Longer names are cut to `WIDTH` characters.

    >>> short_name("void at::native::vectorized_add<4, float>(int, float*)")
    'vectorized_add<4, float>'
    """
    name = kernel.removeprefix("void ")
    name = re.sub(r"\((anonymous|unnamed)[ \w]*\)::", "", name)
    name = re.sub(r"\b(at|native|cuda|cutlass|std|c10)::", "", name)
    name = re.sub(r"\(.*$", "", name)
    return name if len(name) <= WIDTH else name[: WIDTH - 3] + "..."


def kernels_share(found: KernelTimes, step_seconds: float) -> dict[str, Any]:
    """Return the results of profiling as a dict, for the record of a benchmark.

    The entry `share` is the fraction of a training step in which GPU kernels run;
    `microseconds` and `calls` are the time and number of all kernels per step; `top`
    lists the kernels with the longest times.

    Args:
        found: The callback that has profiled the kernels.
        step_seconds: Seconds of a training step, measured without the profiler.
    """
    return {
        "share": found.microseconds / 1e6 / step_seconds,
        "microseconds": found.microseconds,
        "calls": sum(kernel.calls for kernel in found.kernels),
        "top": [vars(kernel) for kernel in found.kernels[:TOP]],
    }

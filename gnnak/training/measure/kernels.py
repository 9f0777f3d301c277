"""What a GPU is busy with while training runs."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch.autograd import DeviceType
from torch.profiler import profile

from gnnak.loading.prefetch import prefetching_paused
from gnnak.training.measure.stopwatch import wait

STEPS, TOP, WIDTH = 10, 12, 60
"""Steps that are profiled, kernels that are listed, letters of their names."""


@dataclass(frozen=True)
class KernelTime:
    """The launches of one kernel in a step of training."""

    name: str
    """What it is called, shortened."""
    calls: float
    """Launches a step."""
    microseconds: float
    """Time a step, of all launches together."""


class KernelTimes(Callback):
    """Profiles the first steps of one epoch, as training runs them, and then stops it.

    It begins and ends while no batch is made ahead: where the profiler went while
    another thread worked on the GPU, the process was seen to end.

    Args:
        epoch: Which one.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch, self.steps = epoch, 0
        self.kernels: list[KernelTime] = []
        """All kernels, the longest first."""
        self._profile: Any = None

    @property
    def microseconds(self) -> float:
        """Time of all kernels in a step."""
        return sum(kernel.microseconds for kernel in self.kernels)

    def on_fit_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Wake the profiler: it must know of graphs before they are captured."""
        with prefetching_paused(), profile(acc_events=True):
            pass

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Begin, if it is time."""
        if trainer.current_epoch == self.epoch:
            wait(trainer.strategy.root_device)
            with prefetching_paused():
                self._profile = profile(acc_events=True).__enter__()

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, *more: Any
    ) -> None:
        """Count the step; end after the last one."""
        if self._profile is not None:
            self.steps += 1
            if self.steps == STEPS:
                trainer.should_stop = True
                self._end(trainer)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        """End with the epoch, where it is a short one."""
        if self._profile is not None:
            self._end(trainer)

    def _end(self, trainer: Trainer) -> None:
        wait(trainer.strategy.root_device)
        with prefetching_paused():
            self._profile.__exit__(None, None, None)
        self.kernels = kernel_times(self._profile.key_averages(), self.steps)
        self._profile = None


def kernel_times(events: Iterable[Any], steps: int) -> list[KernelTime]:
    """Kernels among the averaged events of a profile, the longest first.

    Args:
        events: As `profile.key_averages()` gives them.
        steps: How many steps were profiled.
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
    """A kernel's name without return type, namespaces and arguments.

    >>> short_name("void at::native::vectorized_add<4, float>(int, float*)")
    'vectorized_add<4, float>'
    """
    name = kernel.removeprefix("void ")
    name = re.sub(r"\((anonymous|unnamed)[ \w]*\)::", "", name)
    name = re.sub(r"\b(at|native|cuda|cutlass|std|c10)::", "", name)
    name = re.sub(r"\(.*$", "", name)
    return name if len(name) <= WIDTH else name[: WIDTH - 3] + "..."


def kernels_share(found: KernelTimes, step_seconds: float) -> dict[str, Any]:
    """The share of a step's time in which kernels run, and the longest of them.

    Args:
        found: What was profiled.
        step_seconds: How long a step takes when nobody profiles it.
    """
    return {
        "share": found.microseconds / 1e6 / step_seconds,
        "microseconds": found.microseconds,
        "calls": sum(kernel.calls for kernel in found.kernels),
        "top": [vars(kernel) for kernel in found.kernels[:TOP]],
    }

"""Clipping and optimiser step, captured as a CUDA graph and replayed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain, cycle
from operator import is_
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from gnnak.device import own_streams
from gnnak.fast.layers.parts import Serves, implements
from gnnak.fast.step.recorder import GraphRecorder

WEIGHTS_PER_STREAM = 32
"""Number of weight tensors that the optimiser updates on one CUDA stream."""


@implements("take_step")
def take_captured_step(_: Serves, optimizer: Optimizer, device: torch.device) -> None:
    """Take the optimiser's step on several CUDA streams while a graph is captured."""
    if device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
        return NotImplemented
    return step_on_streams(optimizer, device)


def step_on_streams(optimizer: Optimizer, device: torch.device) -> None:
    """Take a step of a fused Adam, divided among several parallel CUDA streams."""
    groups, here = optimizer.param_groups, torch.cuda.current_stream(device)
    # Use the same streams each time: new streams could not reuse the memory that
    # PyTorch caches for old ones.
    streams, used = cycle(own_streams(device).side), []
    try:
        for group in groups:
            weights = group["params"]
            for first in range(0, len(weights), WEIGHTS_PER_STREAM):
                some = weights[first : first + WEIGHTS_PER_STREAM]
                optimizer.param_groups = [group | {"params": some}]
                used.append(next(streams))
                used[-1].wait_stream(here)
                with torch.cuda.stream(used[-1]):
                    optimizer.step()
    finally:
        optimizer.param_groups = groups
        for stream in used:
            here.wait_stream(stream)


VARYING = ("params", "lr", "capturable", "fused")
"""Options of a parameter group that may change between replays of an update."""
FUSED = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)
"""Optimisers whose captured steps are fused, unless the user has set `foreach` or
`fused`. If steps are not fused, Adam needs two kernels per weight, and SGD reads the
learning rate on the CPU."""


class CapturedUpdate:
    """Clips gradients and takes an optimiser step: directly, or by a replay.

    A replay reads the gradient tensors that its capture read, and the learning rates in
    `rates`. `reason` tells why updates cannot be captured.
    """

    def __init__(
        self,
        take: Callable[[], object],
        optimizer: Optimizer,
        recorder: GraphRecorder,
        device: torch.device,
    ) -> None:
        self.take, self.optimizer, self.recorder = take, optimizer, recorder
        self.device = device
        self.reason = _find_obstacle(optimizer)
        self.rates: list[Tensor] = []
        # The weights and optimiser states that captured updates read and write. These
        # references prevent their memory from being freed.
        self._captured_tensors: list[object] | None = None
        self._replays: list[Callable[[], object]] = []
        # The options of each parameter group that are constants of captured updates.
        self._captured_options: list[dict[str, Any]] = []
        # The numbers in `rates`; None if unknown to the host.
        self._copied_rates: list[float | None] = []

    def run(self) -> None:
        on_device = self._is_current() and not self._has_sparse_gradients()
        with self._on_device() if on_device else nullcontext():
            self.take()

    def record(self) -> Callable[[], object] | None:
        if self._has_sparse_gradients():
            self.reason = "gradients are sparse"
        if self.reason is not None or not self._has_state():
            return None
        if not self._is_current():
            self._prepare()
        try:
            with self._on_device(self.rates):
                replay = self.recorder.record(lambda: self.take())
        except Exception as error:
            self.reason = (str(error).splitlines() or [type(error).__name__])[0]
            return None
        self._replays.append(replay)
        return replay

    def can_replay(self, replay: Callable[[], object] | None) -> bool:
        """Return whether `replay` is valid; if so, update the tensors in `rates`."""
        if replay is None or not self._is_current() or replay not in self._replays:
            return False
        if self._present_options() != self._captured_options:
            self.reason = "options of the optimiser change from step to step"
            return False
        if _has_hooks(self.optimizer):
            self.reason = f"{type(self.optimizer).__name__} has hooks"
            return False
        for i, group in enumerate(self.optimizer.param_groups):
            if isinstance(group["lr"], Tensor) and group["lr"].is_cuda:
                self.rates[i].copy_(group["lr"])
                self._copied_rates[i] = None
            elif (rate := float(group["lr"])) != self._copied_rates[i]:
                self._copied_rates[i] = rate
                self.rates[i].fill_(rate)
        return True

    def forget(self) -> None:
        self._replays.clear()

    def _is_current(self) -> bool:
        """Return whether captures read the present weights and optimiser states."""
        captured = self._captured_tensors
        if captured is None:
            return False
        present = self._tensors()
        return len(present) == len(captured) and all(map(is_, present, captured))

    def _tensors(self) -> list[object]:
        groups, states = self.optimizer.param_groups, self.optimizer.state.values()
        weights = chain.from_iterable(group["params"] for group in groups)
        return [*weights, *chain.from_iterable(state.values() for state in states)]

    def _present_options(self) -> list[dict[str, Any]]:
        names = [name for name in self.optimizer.defaults if name not in VARYING]
        groups = self.optimizer.param_groups
        return [{name: group[name] for name in names} for group in groups]

    def _has_sparse_gradients(self) -> bool:
        groups = self.optimizer.param_groups
        grads = (weight.grad for group in groups for weight in group["params"])
        return any(grad is not None and grad.is_sparse for grad in grads)

    def _has_state(self) -> bool:
        for group in self.optimizer.param_groups:
            wanted = not isinstance(self.optimizer, torch.optim.SGD)
            wanted = wanted or bool(group["momentum"])
            for weight in group["params"]:
                state = self.optimizer.state.get(weight) or {}
                found = bool(state) and all(v is not None for v in state.values())
                if wanted and weight.grad is not None and not found:
                    return False
        return True

    def _prepare(self) -> None:
        """Move step counters to the GPU, and discard earlier captures."""
        groups = self.optimizer.param_groups
        self._captured_options = self._present_options()
        for state in self.optimizer.state.values():
            for name, value in state.items():
                if isinstance(value, Tensor) and not value.dim():
                    state[name] = value.to(self.device)
        self._captured_tensors = self._tensors()
        self._replays.clear()
        self._copied_rates = [None] * len(groups)
        rates = [float(group["lr"]) for group in groups]
        self.rates = [torch.tensor(rate, device=self.device) for rate in rates]

    @contextmanager
    def _on_device(self, rates: list[Tensor] | None = None) -> Iterator[None]:
        """Context manager: set `capturable`, `fused` and, if given, learning rates."""
        groups = self.optimizer.param_groups
        before = [{k: group[k] for k in group if k in VARYING[1:]} for group in groups]
        for i, group in enumerate(groups):
            if self.device.type == "cuda":
                if "capturable" in group:
                    group["capturable"] = True
                if type(self.optimizer) in FUSED and not _is_chosen(group):
                    group["fused"] = True
            if rates is not None:
                group["lr"] = rates[i]
        try:
            yield
        finally:
            for group, values in zip(groups, before, strict=True):
                group.update(values)


def _is_chosen(group: dict[str, Any]) -> bool:
    """Return whether the user has set `foreach` or `fused` for a parameter group."""
    return (group.get("foreach"), group.get("fused")) != (None, None)


def _find_obstacle(optimizer: Optimizer) -> str | None:
    kind, groups = type(optimizer), optimizer.param_groups
    known = kind.__module__.startswith("torch.optim.")
    capturable = all("capturable" in group for group in groups)
    if not known or not (capturable or kind is torch.optim.SGD):
        return f"{kind.__name__} has no option capturable"
    if _has_hooks(optimizer):
        return f"{kind.__name__} has hooks"
    if any(group.get("differentiable") for group in groups):
        return f"{kind.__name__} is differentiable"
    can_be_fused = all(group.get("fused") or not _is_chosen(group) for group in groups)
    if kind is torch.optim.SGD and not can_be_fused:
        return "SGD reads the learning rate on the host; leave out foreach and fused"
    return None


def _has_hooks(optimizer: Optimizer) -> bool:
    names = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
    return any(getattr(optimizer, name, None) for name in names)

"""Clipping and optimiser step, captured as a CUDA graph and replayed.

The user's optimiser keeps its options and its state. The learning rate may change in
every step: before a replay, it is copied to a tensor on the GPU. Other options, such as
the betas of Adam, are part of the graph, so a step with other values is not replayed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from gnnak.fast.step.recorder import Recorder

VARYING = ("params", "lr", "capturable", "fused")
"""Entries of a parameter group that do not prevent a replay if they change."""
FUSED = (torch.optim.Adam, torch.optim.AdamW)
"""Optimisers that update all weights in a few kernels, unless the user has chosen
another implementation. PyTorch's default needs two kernels per weight if captured."""


class CapturedUpdate:
    """Clips gradients and takes an optimiser step; captured once per set of gradients.

    Args:
        take: Clips the gradients and calls `optimizer.step()`.
        optimizer: The optimiser.
        recorder: Captures the update.
        device: The device of the weights.

    Attributes:
        reason: Why updates are not captured; None if they are or may be.
    """

    def __init__(
        self,
        take: Callable[[], object],
        optimizer: Optimizer,
        recorder: Recorder,
        device: torch.device,
    ) -> None:
        self.take, self.optimizer, self.recorder = take, optimizer, recorder
        self.device = device
        self.reason = _find_obstacle(optimizer)
        self.rates: list[Tensor] = []
        self._state: tuple[int, int] | None = None
        self._options: list[dict[str, Any]] = []
        self._known: list[float | None] = []

    def run(self) -> None:
        """Update the weights without a capture."""
        with self._on_device() if self._state is not None else _unchanged():
            self.take()

    def record(self) -> Callable[[], object] | None:
        """Capture an update with the present gradients.

        Returns:
            A function that replays the update; None if the update cannot be captured,
            or not yet, since the optimiser has no state for some weight.
        """
        if self.reason is not None or not self._has_state():
            return None
        self._prepare()
        nothing = torch.empty(0, device=self.device)

        def work() -> Tensor:
            self.take()
            return nothing

        try:
            with self._on_device(self.rates):
                return self.recorder.record(work)
        except Exception as error:
            self.reason = (str(error).splitlines() or [type(error).__name__])[0]
            return None

    def can_replay(self) -> bool:
        """Copy the learning rates to the GPU; return whether a replay is right.

        If the optimiser has got another state, as by `load_state_dict`, updates have to
        be captured anew. If an option has changed, they are no longer captured.
        """
        groups = self.optimizer.param_groups
        if self._state != (id(self.optimizer.state), id(groups)):
            self._state = None
            return False
        if [_options(group) for group in groups] != self._options:
            self.reason = "options of the optimiser change from step to step"
            return False
        for i, group in enumerate(groups):
            if _is_on_gpu(group["lr"]):
                continue
            rate = float(group["lr"])
            if rate != self._known[i]:
                self._known[i] = rate
                self.rates[i].fill_(rate)
        return True

    def _has_state(self) -> bool:
        """Return whether a step would allocate no state of the optimiser."""
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
        """Move step counters to the GPU, and note the options of the optimiser."""
        groups = self.optimizer.param_groups
        self._state = (id(self.optimizer.state), id(groups))
        self._options = [_options(group) for group in groups]
        for state in self.optimizer.state.values():
            if isinstance(state.get("step"), Tensor):
                state["step"] = state["step"].to(self.device)
        if len(self.rates) != len(groups):
            self._known = [None] * len(groups)
            self.rates = [
                group["lr"]
                if _is_on_gpu(group["lr"])
                else torch.tensor(float(group["lr"]), device=self.device)
                for group in groups
            ]

    @contextmanager
    def _on_device(self, rates: list[Tensor] | None = None) -> Iterator[None]:
        """Context manager: the optimiser reads counters, and `rates`, on the GPU."""
        groups = self.optimizer.param_groups
        before = [{k: group[k] for k in group if k in VARYING[1:]} for group in groups]
        for i, group in enumerate(groups):
            if "capturable" in group and self.device.type == "cuda":
                group["capturable"] = True
                if type(self.optimizer) in FUSED and group.get("foreach") is None:
                    group["fused"] = True
            if rates is not None:
                group["lr"] = rates[i]
        try:
            yield
        finally:
            for group, values in zip(groups, before, strict=True):
                group.update(values)


@contextmanager
def _unchanged() -> Iterator[None]:
    """Context manager: does nothing."""
    yield


def _options(group: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a parameter group that are part of a CUDA graph."""
    return {name: value for name, value in group.items() if name not in VARYING}


def _is_on_gpu(rate: object) -> bool:
    return isinstance(rate, Tensor) and rate.is_cuda


def _find_obstacle(optimizer: Optimizer) -> str | None:
    """Return why the steps of an optimiser cannot be captured; None if they can."""
    kind, groups = type(optimizer), optimizer.param_groups
    known = kind.__module__.startswith("torch.optim.")
    capturable = all("capturable" in group for group in groups)
    if not known or not (capturable or kind is torch.optim.SGD):
        return f"{kind.__name__} has no option capturable"
    hooks = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
    if any(getattr(optimizer, name, None) for name in hooks):
        return f"{kind.__name__} has hooks"
    if any(group.get("differentiable") for group in groups):
        return f"{kind.__name__} is differentiable"
    return None

"""A training step as one function: loss, backward pass, clipping and optimiser step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from gnnak.backend import operation
from gnnak.distributed import average_gradients, several_processes
from gnnak.loading.items import Item


@operation
def take_step(optimizer: Optimizer, device: torch.device) -> None:
    optimizer.step()


def make_ready(optimizer: Optimizer, device: torch.device, captured: bool) -> None:
    """Keep Adam's learning rate and step counter on the GPU if steps are captured."""
    options: dict[str, Any] = {"capturable": False, "fused": None}
    if captured and device.type == "cuda":
        options = {"capturable": True, "fused": True}
    for group in optimizer.param_groups:
        rate = float(group["lr"])
        group.update(options)
        group["lr"] = torch.tensor(rate, device=device) if options["fused"] else rate
    for state in optimizer.state.values():
        where = device if options["fused"] else "cpu"
        state["step"] = state["step"].to(where, torch.float32)


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate. Change a tensor in place, since CUDA graphs read it."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


Step = Callable[[Item], Tensor]
"""Trains on one `Item`, a batch, and returns the detached loss."""


@operation
def can_capture(network: nn.Module, device: torch.device, precision: str) -> bool:
    """Return False; the fast backend replaces this function, and can capture steps."""
    return False


@operation
def make_captured(
    step: Step, device: torch.device, release: Callable[[], object]
) -> Step:
    """Return `step`; the fast backend replaces this function, and captures the step."""
    return step


def make_step(
    loss_of: Callable[[Item], Tensor],
    optimizer: Optimizer,
    device: torch.device,
    precision: str,
    clip: float | None,
) -> Step:
    """Build the training step of a run; `precision` is "32", "64" or "bf16"."""
    narrow = torch.bfloat16 if precision == "bf16" else None

    def update() -> None:
        if several_processes():
            groups = optimizer.param_groups
            average_gradients([weight for g in groups for weight in g["params"]])
        clip_gradients(optimizer, clip)
        take_step(optimizer, device)

    def step(item: Item) -> Tensor:
        with torch.autocast(device.type, enabled=False):
            return train_once(lambda: loss_of(item), optimizer, update, device, narrow)

    return step


def train_once(
    loss_of: Callable[[], Tensor],
    optimizer: Optimizer,
    update: Callable[[], object],
    device: torch.device,
    autocast: torch.dtype | None,
) -> Tensor:
    """Take one training step; if `autocast` is None, the caller's autocast applies."""
    kind = device.type
    # Each captured CUDA graph needs its own gradients, and must not read weights that
    # autocast has cached while another CUDA graph was captured.
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(
        kind,
        autocast or torch.get_autocast_dtype(kind),
        enabled=autocast is not None or torch.is_autocast_enabled(kind),
        cache_enabled=False,
    ):
        loss = loss_of()
    backward(loss)
    update()
    return loss.detach()


def clip_gradients(optimizer: Optimizer, clip: float | None) -> None:
    if clip is not None:
        groups = optimizer.param_groups
        clip_grad_norm_([weight for g in groups for weight in g["params"]], clip)


@contextmanager
def backward_in_calling_thread() -> Iterator[None]:
    """Context manager: backward passes run in the thread that calls them.

    For models on a GPU, PyTorch by default runs backward passes in a second thread. For
    a model on one GPU, the second thread only costs time, and memory for cuBLAS
    workspaces of its own. `TrainingStep` uses this context manager; use it in your own
    loop around `backward()`. It changes `torch.autograd.set_multithreading_enabled` for
    the calling thread only, and restores the setting at the end. Do not use it for a
    model on several GPUs in one process.

    >>> with backward_in_calling_thread():
    ...     torch.ones(1, requires_grad=True).sum().backward()
    """
    with torch.autograd.set_multithreading_enabled(False):
        yield


def backward(loss: Tensor) -> None:
    with backward_in_calling_thread():
        loss.backward()

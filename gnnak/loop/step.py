"""A training step as one function: loss, backward pass, clipping and optimiser step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from gnnak.backend import operation
from gnnak.loading.items import Item


@operation
def take_step(optimizer: Optimizer, device: torch.device) -> None:
    """Update the weights, which are on `device`, by one step of the optimiser."""
    optimizer.step()


def make_ready(optimizer: Optimizer, device: torch.device, captured: bool) -> None:
    """Prepare Adam in place for training steps with or without CUDA graphs.

    With CUDA graphs, Adam becomes capturable, and its learning rate and step counters
    become tensors on the GPU. Without CUDA graphs, the learning rate is a float and the
    counters are on the CPU. The state of Adam may come from a checkpoint that was
    written on another device.

    Args:
        optimizer: Adam, with new or loaded state.
        device: The device of the weights.
        captured: Whether training steps are captured as CUDA graphs; ignored on the
            CPU.
    """
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
    """Set the learning rate of the optimiser.

    A learning rate that is a tensor is changed in place, since CUDA graphs read the
    learning rate from a fixed address.
    """
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


Step = Callable[[Item], Tensor]
"""A function that trains on one item (a batch and its rooted subgraphs) and returns the
detached loss."""


@operation
def can_capture(network: nn.Module, device: torch.device, precision: str) -> bool:
    """Return whether training steps can be captured as CUDA graphs and replayed.

    This implementation in plain PyTorch always returns False. The fast backend replaces
    this function.

    Args:
        network: The network, in training mode.
        device: The device that the network is trained on.
        precision: The precision of the training: "32", "64", "bf16" or "16".
    """
    return False


@operation
def make_captured(
    step: Step, device: torch.device, release: Callable[[], object]
) -> Step:
    """Return `step` unchanged; the fast backend replaces this function.

    The replacement captures the step as a CUDA graph, once for each shape of a batch,
    and replays this graph. Only the replacement uses `device` and `release`.

    Args:
        step: Trains on an item (a batch and its rooted subgraphs) and returns the
            detached loss.
        device: The device that the step runs on.
        release: A function that frees the gradients, which a step leaves allocated.
    """
    return step


def make_step(
    loss_of: Callable[[Item], Tensor],
    optimizer: Optimizer,
    device: torch.device,
    precision: str,
    clip: float | None,
) -> Step:
    """Build the training step of a run: loss, backward pass, clipping, optimiser.

    The step never synchronises with the device, so it can be captured as a CUDA graph.

    Args:
        loss_of: Returns the loss of an item (a batch and its rooted subgraphs).
        optimizer: Updates the weights.
        device: The device of the weights.
        precision: "32", "64" or "bf16", for mixed precision.
        clip: Largest norm of the gradient; None = it is not clipped.

    Returns:
        A function that trains on an item and returns the detached loss.
    """
    narrow = torch.bfloat16 if precision == "bf16" else None

    def update() -> None:
        """Clip the gradients and take an optimiser step."""
        clip_gradients(optimizer, clip)
        take_step(optimizer, device)

    def step(item: Item) -> Tensor:
        """Train on an item; the caller's autocast, such as Lightning's, is off."""
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
    """Take one training step: loss, backward pass, update of the weights.

    Args:
        loss_of: Runs the forward pass and returns the loss.
        optimizer: The optimiser, whose weights get new gradients.
        update: Clips the gradients and takes an optimiser step.
        device: The device of the weights.
        autocast: Data type of mixed precision in the forward pass; None = as the
            caller's autocast.

    Returns:
        The detached loss.
    """
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
    """Scale the gradients so that the norm of all together is at most `clip`.

    Args:
        optimizer: The optimiser of the weights.
        clip: The largest norm; None = gradients are not clipped.
    """
    if clip is not None:
        groups = optimizer.param_groups
        clip_grad_norm_([weight for g in groups for weight in g["params"]], clip)


def backward(loss: Tensor) -> None:
    """Run the backward pass in the calling thread.

    On a GPU, PyTorch by default runs the backward pass in a second thread. That thread
    would allocate cuBLAS workspaces of its own, which takes memory.
    """
    with torch.autograd.set_multithreading_enabled(False):
        loss.backward()

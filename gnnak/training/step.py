"""A training step as one function: loss, backward pass, clipping, optimiser."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from gnnak.backend import operation
from gnnak.loading.items import Item
from gnnak.training.config.run_config import TrainConfig
from gnnak.training.optimizer import take_step

Step = Callable[[Item], Tensor]
"""Trains on one batch and returns the detached loss."""


@operation
def can_capture(network: nn.Module, device: torch.device, precision: str) -> bool:
    """Return whether training steps can be captured as CUDA graphs and replayed.

    The implementation in plain PyTorch returns False.

    Args:
        network: The network, in training mode.
        device: The device it is trained on.
        precision: The precision it is trained in.
    """
    return False


@operation
def make_captured(
    step: Step, device: torch.device, release: Callable[[], object]
) -> Step:
    """Return a step that is captured as a CUDA graph per batch shape, then replayed.

    The implementation in plain PyTorch returns the step as it is.

    Args:
        step: Trains on an item and returns the detached loss.
        device: The device it runs on.
        release: Called to free the memory that a step leaves allocated, the gradients.
    """
    return step


def make_step(
    loss_of: Callable[[Item], Tensor],
    optimizer: Optimizer,
    train: TrainConfig,
    device: torch.device,
) -> Step:
    """Build the training step of a run, which never synchronises with the device.

    Args:
        loss_of: Returns the loss of an item (a batch and its subgraphs).
        optimizer: Updates the weights.
        train: Precision and clipping; precision `16` is not supported: it needs a
            gradient scaler.
        device: The device of the weights.

    Returns:
        A function that trains on an item and returns its detached loss.
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    narrow = train.precision == "bf16"

    def step(item: Item) -> Tensor:
        # Each captured graph needs its own gradients, and must not read the weights
        # that autocast cached for another one.
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, enabled=False):
            with torch.autocast(
                device.type, torch.bfloat16, enabled=narrow, cache_enabled=False
            ):
                loss = loss_of(item)
            backward(loss)
            if train.clip is not None:
                clip_grad_norm_(weights, train.clip)
            take_step(optimizer, device)
        return loss.detach()

    return step


def backward(loss: Tensor) -> None:
    """Run the backward pass in this thread.

    PyTorch by default runs it on a GPU in another thread, with other cuBLAS workspaces
    than those that were captured.
    """
    with torch.autograd.set_multithreading_enabled(False):
        loss.backward()

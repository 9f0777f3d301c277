"""One step of training as one function: loss, gradient, clipping, Adam."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from gnnak.loading.items import Item
from gnnak.training.config import TrainConfig
from gnnak.training.optimizer import take_step


def make_step(
    loss_of: Callable[[Item], Tensor],
    optimizer: Optimizer,
    train: TrainConfig,
    device: torch.device,
) -> Callable[[Item], Tensor]:
    """The step of a run, which never waits for the device.

    Args:
        loss_of: The loss of an item.
        optimizer: Moves the weights.
        train: Precision and clipping; `precision` 16 is not for this.
        device: Where the weights are.

    Returns:
        From an item to its loss, detached; the weights have been moved.
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    narrow = train.precision == "bf16"

    def step(item: Item) -> Tensor:
        # Gradients are made anew, so that a graph has its own; weights that were cast
        # are forgotten at once, as a graph must not read those of another.
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
    """The backward pass of a loss, in this thread.

    On a GPU it would have a thread of its own, and cuBLAS workspaces for that.
    """
    with torch.autograd.set_multithreading_enabled(False):
        loss.backward()

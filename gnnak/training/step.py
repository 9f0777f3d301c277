"""One step of training as one function: loss, gradient, clipping, optimiser."""

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


@operation
def can_capture(network: nn.Module, device: torch.device, precision: str) -> bool:
    """Return whether steps can be captured and replayed; never in plain PyTorch.

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
    """Return a step that is captured for a few shapes of batches and then replayed.

    Args:
        step: Trains on an item and returns the detached loss.
        device: The device it runs on.
        release: Frees what a step leaves in memory, such as gradients.
    """
    return step


def make_step(
    loss_of: Callable[[Item], Tensor],
    optimizer: Optimizer,
    train: TrainConfig,
    device: torch.device,
) -> Step:
    """Build the step of a run, which never synchronises with the device.

    Args:
        loss_of: The loss of an item.
        optimizer: Updates the weights.
        train: Precision and clipping; `precision` 16 is not supported here.
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

    PyTorch's thread for the backward pass on a GPU has its own cuBLAS workspaces.
    """
    with torch.autograd.set_multithreading_enabled(False):
        loss.backward()

"""Adam and its learning rate, for steps that are captured as CUDA graphs or not."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from gnnak.backend import operation
from gnnak.training.config.run_config import TrainConfig


def make_optimizer(weights: Iterable[nn.Parameter], train: TrainConfig) -> Adam:
    """Build Adam with the learning rate and the weight decay of a run."""
    rate, decay = train.learning_rate, train.weight_decay
    return Adam(weights, lr=rate, weight_decay=decay)


@operation
def take_step(optimizer: Optimizer, device: torch.device) -> None:
    """Update the weights by one step of the optimiser; they are on `device`."""
    optimizer.step()


def make_ready(optimizer: Optimizer, device: torch.device, captured: bool) -> None:
    """Prepare Adam for captured or ordinary steps on a device, in place.

    Sets its options and moves its step counters: to the device for captured steps on a
    GPU, otherwise to the CPU. Its state may be new, or come from a checkpoint that was
    written on another device.

    Args:
        optimizer: Adam.
        device: The device of the weights.
        captured: Whether training steps are captured as CUDA graphs. If so, and on a
            GPU, the learning rate becomes a tensor with a fixed address.
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
    """Set the learning rate.

    A learning rate that is a tensor is changed in place, since captured CUDA graphs
    read it from its address.
    """
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate

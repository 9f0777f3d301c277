"""Adam and its learning rate, for captured and for plain steps."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from gnnak.backend import operation
from gnnak.training.config.run_config import TrainConfig


def make_optimizer(weights: Iterable[nn.Parameter], train: TrainConfig) -> Adam:
    """Build Adam with the options of a run."""
    rate, decay = train.learning_rate, train.weight_decay
    return Adam(weights, lr=rate, weight_decay=decay)


@operation
def take_step(optimizer: Optimizer, device: torch.device) -> None:
    """Update the weights, which are on `device`."""
    optimizer.step()


def make_ready(optimizer: Optimizer, device: torch.device, captured: bool) -> None:
    """Prepare an optimizer, new or from a checkpoint, for its device.

    Args:
        optimizer: An Adam.
        device: Where its weights are.
        captured: Whether its steps are captured as CUDA graphs: the learning rate is
            then a tensor with a fixed address, and steps are counted on the device.
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
    """Set the learning rate; where it is a tensor, in place."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate

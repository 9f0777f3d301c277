"""Adam and its learning rate, with and without captured steps (CUDA graphs)."""

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
    """Run one step of the optimiser; `device` is that of its weights."""
    optimizer.step()


def make_ready(optimizer: Optimizer, device: torch.device, captured: bool) -> None:
    """Set the options and move the state of an optimiser for its device, in place.

    The state may be new or from a checkpoint, written on any device.

    Args:
        optimizer: Adam.
        device: The device of its weights.
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
    """Set the learning rate; if it is a tensor, change it in place."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate

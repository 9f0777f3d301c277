"""Build Adam and set its learning rate, also for steps captured as CUDA graphs."""

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

"""Adam, made to be captured or not, and its learning rate."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from gnnak.fast.step.streams import SideStreams
from gnnak.training.config import TrainConfig

TOGETHER = 32
"""Weights that one lane moves."""


def make_optimizer(weights: Iterable[nn.Parameter], train: TrainConfig) -> Adam:
    """Adam with the run's options."""
    rate, decay = train.learning_rate, train.weight_decay
    return Adam(weights, lr=rate, weight_decay=decay)


def take_step(optimizer: Optimizer, device: torch.device) -> None:
    """Move the weights; in a captured step, some beside the others.

    Adam moves a few dozen of them at a time, and each time takes as long as the
    largest of these.

    Args:
        optimizer: An Adam.
        device: Where its weights are.
    """
    whole = optimizer.param_groups
    with SideStreams(device) as lanes:
        if not lanes.parted:
            optimizer.step()
            return
        try:
            for group in whole:
                for first in range(0, len(group["params"]), TOGETHER):
                    some = group["params"][first : first + TOGETHER]
                    optimizer.param_groups = [group | {"params": some}]
                    with lanes.side_stream():
                        optimizer.step()
        finally:
            optimizer.param_groups = whole


def make_ready(optimizer: Optimizer, device: torch.device, captured: bool) -> None:
    """Let an optimizer, new or from a checkpoint, run here, captured or not.

    Args:
        optimizer: An Adam.
        device: Where its weights are.
        captured: Whether its steps are captured as CUDA graphs: the learning rate then
            is a tensor that stays in its place, and steps are counted on the device.
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
    """Change the learning rate; where it is a tensor, in its place."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate

"""Adam's step on several streams."""

import torch
from torch.optim import Optimizer

from gnnak.fast.step.streams import SideStreams

WEIGHTS_PER_STREAM = 32
"""Number of weights that one stream updates."""


def step_on_streams(optimizer: Optimizer, device: torch.device) -> None:
    """Update the weights in groups that run at the same time in a captured step.

    PyTorch's fused Adam updates a few dozen weights per launch, and each launch takes
    as long as its largest weight.

    Args:
        optimizer: A fused Adam.
        device: The device of its weights.
    """
    groups = optimizer.param_groups
    with SideStreams(device) as streams:
        try:
            for group in groups:
                weights = group["params"]
                for first in range(0, len(weights), WEIGHTS_PER_STREAM):
                    some = weights[first : first + WEIGHTS_PER_STREAM]
                    optimizer.param_groups = [group | {"params": some}]
                    with streams.side_stream():
                        optimizer.step()
        finally:
            optimizer.param_groups = groups

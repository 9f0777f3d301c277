"""Run the optimiser step of fused Adam on several CUDA streams."""

import torch
from torch.optim import Optimizer

from gnnak.fast.step.streams import SideStreams

WEIGHTS_PER_STREAM = 32
"""Number of weight tensors that one stream updates."""


def step_on_streams(optimizer: Optimizer, device: torch.device) -> None:
    """Update groups of weights on side streams, which a captured step runs at once.

    PyTorch's fused Adam updates a few dozen weight tensors per kernel launch, and each
    launch takes as long as its largest tensor; on one stream, launches run in sequence.

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

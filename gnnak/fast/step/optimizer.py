"""Run the optimiser step of fused Adam on several CUDA streams."""

import torch
from torch.optim import Optimizer

from gnnak.fast.step.streams import SideStreams

WEIGHTS_PER_STREAM = 32
"""Number of weight tensors that the optimiser updates on one CUDA stream."""


def step_on_streams(optimizer: Optimizer, device: torch.device) -> None:
    """Take an optimiser step, with the weights divided among several CUDA streams.

    When the step is captured as a CUDA graph, the streams run in parallel. On a single
    stream the kernels would run one after the other: PyTorch's fused Adam updates only
    a few dozen weight tensors per kernel, and each kernel takes as long as its largest
    tensor.

    Args:
        optimizer: A fused Adam.
        device: The device of the weights.
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

"""Fast training steps: captured as CUDA graphs and replayed."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from gnnak.fast.step.capability import find_synchronising
from gnnak.fast.step.captured import CapturedStep, Step
from gnnak.fast.step.model import CapturedModel
from gnnak.fast.step.optimizer import step_on_streams
from gnnak.fast.step.recorder import GraphRecorder
from gnnak.fast.step.update import CapturedUpdate
from gnnak.loading.items import Item


class StepOperations:
    """Training steps captured as CUDA graphs; optimiser steps on several streams."""

    # Training steps captured as CUDA graphs.

    def can_capture(
        self, network: nn.Module, device: torch.device, precision: str
    ) -> bool:
        if device.type != "cuda" or precision == "16":
            return False
        return find_synchronising(network, precision) is None

    def make_captured(
        self, step: Step, device: torch.device, release: Callable[[], object]
    ) -> Step:
        if device.type != "cuda":
            return NotImplemented
        return CapturedStep(step, GraphRecorder(device), release)

    def make_captured_model(
        self,
        forward: Callable[[Item], Any],
        weights: Sequence[nn.Parameter],
        device: torch.device,
        update: Callable[[], object],
        optimizer: torch.optim.Optimizer,
    ) -> Callable[[Item], Any]:
        if device.type != "cuda":
            return NotImplemented
        recorder = GraphRecorder(device)
        captured = CapturedUpdate(update, optimizer, recorder, recorder.device)
        return CapturedModel(forward, recorder, weights, captured)

    def take_step(self, optimizer: torch.optim.Optimizer, device: torch.device) -> None:
        if device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
            return NotImplemented
        return step_on_streams(optimizer, device)

"""Recorders for tests: work is called where there is no GPU to capture it on."""

import torch

from gnnak.fast.step.captured import CapturedModel
from gnnak.fast.step.recorder import GraphRecorder, Work
from gnnak.fast.step.update import CapturedUpdate


class CallRecorder:
    """Calls work in place of capturing it."""

    def warm_up(self, work: Work) -> torch.Tensor:
        return work()

    def record(self, work: Work) -> Work:
        return work

    def release(self) -> None:
        pass


def maker_with(recorder: GraphRecorder | CallRecorder):
    """A replacement of `make_captured_model` that captures with a recorder."""

    def make(forward, wrapped, weights, device, update, optimizer):
        captured = CapturedUpdate(update, optimizer, recorder, device)
        return CapturedModel(forward, recorder, wrapped, weights, captured)

    return make


def make_recorder(device: torch.device) -> GraphRecorder | CallRecorder:
    """The recorder for a device."""
    return GraphRecorder(device) if device.type == "cuda" else CallRecorder()

"""Recorders for tests: work is called where there is no GPU to capture it on."""

import torch

from gnnak.fast.step.recorder import GraphRecorder, Recorder, Work


class CallRecorder:
    """Calls work in place of capturing it."""

    def warm_up(self, work: Work) -> torch.Tensor:
        return work()

    def record(self, work: Work) -> Work:
        return work

    def release(self) -> None:
        pass


def make_recorder(device: torch.device) -> Recorder:
    """The recorder for a device."""
    return GraphRecorder(device) if device.type == "cuda" else CallRecorder()

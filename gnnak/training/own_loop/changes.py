"""Detect changes of a model after which its steps must be captured anew."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy


class ModelWatch:
    """Detects changes of a model that make its captured steps wrong.

    These are new addresses of weights or buffers, frozen weights, another mode of a
    module (training or evaluation), and whether autocast is on.

    Args:
        model: The model.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._modules: list[nn.Module] = []
        # For each weight and buffer, the dict of its module that has it, and its key.
        self._places: list[tuple[dict[str, Any], str]] = []
        self._state: tuple | None = None

    def has_changed(self, quick: bool) -> bool:
        """Return whether the model has changed since the last call.

        Args:
            quick: Whether to compare only the modules that were listed in an earlier
                call. Listing all modules takes long, so it is done only before a
                capture.
        """
        if quick and self._present_state() == self._state:
            return False
        self._modules = list(self.model.modules())
        self._places = [
            (tensors, name)
            for module in self._modules
            for tensors in (module._parameters, module._buffers)
            for name in tensors
        ]
        before, self._state = self._state, self._present_state()
        return self._state != before

    def _present_state(self) -> tuple:
        """Return the state of the listed modules, to be compared with a later state."""
        found = [_built(tensors.get(name)) for tensors, name in self._places]
        kind = next((t.device.type for t in found if t is not None), "cpu")
        return (
            [None if t is None else (t.data_ptr(), t.requires_grad) for t in found],
            [module.training for module in self._modules],
            torch.is_autocast_enabled(kind),
        )


def built_weights(model: nn.Module) -> list[nn.Parameter]:
    """Return the weights of a model, without those that its first call will build."""
    return [each for each in model.parameters() if _built(each) is not None]


def _built(tensor: Tensor | None) -> Tensor | None:
    """Return a tensor, or None if it has no shape yet."""
    return None if tensor is None or is_lazy(tensor) else tensor

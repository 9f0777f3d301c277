"""Detect changes of a model after which its steps must be captured anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from operator import is_
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

NUMBERS = (bool, int, float, complex, str, tuple, type(None), np.generic)
"""The types of attributes that `NumberWatch` watches."""


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
        # The tensors at these places when they were listed. Weights and buffers are
        # those with an address; lazy ones are built by a later call of the model.
        self._listed: list[Tensor | None] = []
        self._weights: list[Tensor] = []
        self._buffers: list[Tensor] = []
        self._lazy: list[Tensor] = []
        self._state: tuple | None = None

    def has_changed(self, quick: bool) -> bool:
        """Return whether one of the changes above has happened since the last call.

        Args:
            quick: Whether to compare only the modules that were listed in an earlier
                call. Listing all modules takes long, so it is done only before a
                capture. Then, addresses of buffers do not matter: some modules replace
                a buffer in each call.
        """
        if quick and self._has_listed() and self._present_state() == self._state:
            return False
        self._list_all()
        before, self._state = self._state, self._present_state()
        if before is None or quick:
            return self._state != before
        return self._state[1:] != before[1:]

    def _list_all(self) -> None:
        """List all modules of the model, with their weights and buffers."""
        self._modules = list(self.model.modules())
        weights = _places(each._parameters for each in self._modules)
        buffers = _places(each._buffers for each in self._modules)
        self._places = weights + buffers
        self._listed = self._present_tensors()
        tensors = [tensor for tensor in self._listed if tensor is not None]
        self._lazy = list(filter(is_lazy, tensors))
        count = len(weights)
        self._weights = [t for t in map(_built, self._listed[:count]) if t is not None]
        self._buffers = [t for t in map(_built, self._listed[count:]) if t is not None]

    def _has_listed(self) -> bool:
        """Return whether the modules still have the weights and buffers listed."""
        return all(map(is_, self._present_tensors(), self._listed)) and all(
            map(is_lazy, self._lazy)
        )

    def _present_tensors(self) -> list[Tensor | None]:
        """Return the tensors that the modules have at the listed places."""
        return [tensors.get(name) for tensors, name in self._places]

    def _present_state(self) -> tuple:
        """Return the state of the listed modules, to be compared with a later state."""
        kind = self._weights[0].device.type if self._weights else "cpu"
        return (
            [tensor.data_ptr() for tensor in self._buffers],
            [tensor.data_ptr() for tensor in self._weights],
            [tensor.requires_grad for tensor in self._weights],
            [module.training for module in self._modules],
            torch.is_autocast_enabled(kind),
        )


class NumberWatch:
    """Detects numbers of a model that were changed between steps.

    A replay of a captured step would use the number of the capture, such as the old
    `model.temperature` or `dropout.p`. Numbers are all attributes of modules that are
    ints, floats, bools, strings, tuples, None, or scalars of NumPy. Numbers that change
    while the model is called, such as counters, are ignored.

    Args:
        model: The model.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        # For each number, its module, its name, and the dict of the module's
        # attributes, from which it is read fastest.
        self._numbers: list[tuple[nn.Module, str, dict[str, Any]]] = []
        self._values: list[object] = []
        self._ignored: set[tuple[int, str]] = set()

    def remember(self) -> None:
        """Store all numbers of the model, to be compared with later ones."""
        self._numbers = [
            (module, name, vars(module))
            for module in self.model.modules()
            for name, value in vars(module).items()
            if name != "training" and isinstance(value, NUMBERS)
            if (id(module), name) not in self._ignored
        ]
        self._values = self._present()

    @contextmanager
    def during_call(self) -> Iterator[None]:
        """Context manager for a call of the model: ignore numbers that it changes."""
        before = self._present()
        yield
        if self._present() != before:
            self._ignored |= {(id(m), name) for m, name in self._different(before)}
            self.remember()

    def changed(self) -> str | None:
        """Return the name of a number that has changed since `remember`, or None."""
        if self._present() == self._values:
            return None
        module, name = next(self._different(self._values))
        return f"{type(module).__name__}.{name}"

    def _present(self) -> list[object]:
        """Return the present values of all listed numbers."""
        return [values.get(name) for _, name, values in self._numbers]

    def _different(self, before: list[object]) -> Iterator[tuple[nn.Module, str]]:
        """Yield the modules and names of all numbers that had other values before."""
        for (module, name, now), value in zip(self._numbers, before, strict=True):
            if now.get(name) != value:
                yield module, name


def _places(parts: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """Return all pairs of a dict and one of its keys."""
    return [(tensors, name) for tensors in parts for name in tensors]


def built_weights(model: nn.Module) -> list[nn.Parameter]:
    """Return the weights of a model, without those that its first call will build."""
    return [each for each in model.parameters() if _built(each) is not None]


def is_unbuilt(model: nn.Module) -> bool:
    """Return whether the first call of a model will build weights or buffers."""
    return any(map(is_lazy, chain(model.parameters(), model.buffers())))


def _built(tensor: Tensor | None) -> Tensor | None:
    """Return a tensor, or None if it has no shape yet, or no address (sparse)."""
    if tensor is None or is_lazy(tensor) or tensor.layout != torch.strided:
        return None
    return tensor

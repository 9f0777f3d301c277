"""Detect changes of a model after which its steps must be captured anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gnnak.training.own_loop.module_numbers import Place, find_numbers


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
    `model.temperature`, `dropout.p` or `model.config["p"]`; see `find_numbers`. Numbers
    that change while the model is called, such as counters, are ignored, as are new
    attributes and new entries of containers.

    Args:
        model: The model.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._places: dict[tuple[int, str], Place] = {}
        self._ignored: set[tuple[int, str]] = set()
        # How numbers and containers are read fastest, and what is read if none has
        # changed: the values of numbers, and the ids of containers.
        self._numbers: list[tuple[Callable[[Any], Any], Any]] = []
        self._containers: list[tuple[Callable[[Any], Any], Any]] = []
        self._values: list[object] = []
        self._types: list[type] = []
        self._ids: list[int] = []

    def remember(self) -> None:
        """Store all numbers of the model, to be compared with later ones."""
        found = {place.identity(): place for place in find_numbers(self.model)}
        self._places = {k: p for k, p in found.items() if k not in self._ignored}
        read = [place for place in self._places.values() if not place.is_fixed]
        numbers = [place for place in read if not place.is_container]
        containers = [place for place in read if place.is_container]
        self._numbers = [(place.get, place.key) for place in numbers]
        self._containers = [(place.get, place.key) for place in containers]
        self._values = [place.value for place in numbers]
        self._types = [*map(type, self._values)]
        self._ids = [id(place.value) for place in containers]

    @contextmanager
    def during_call(self) -> Iterator[None]:
        """Context manager for a call of the model: ignore numbers that it changes."""
        if not self._is_same():
            self.remember()
        yield
        if not self._is_same():
            self._ignored |= {place.identity() for place in self._different()}
            self.remember()

    def changed(self) -> str | None:
        """Return the name of a number that has changed since `remember`, or None."""
        if self._is_same():
            return None
        different = next(self._different(), None)
        if different is None:
            # A container was replaced by one with the same numbers.
            self.remember()
            return None
        return f"{type(different.module).__name__}.{different.name}"

    def _is_same(self) -> bool:
        """Return whether no number has changed, and no container was replaced."""
        try:
            now = [get(key) for get, key in self._numbers]
            # Types first: a comparison with a tensor on a GPU would synchronise.
            same = [*map(type, now)] == self._types and now == self._values
            return same and (
                [id(get(key)) for get, key in self._containers] == self._ids
            )
        except Exception:
            # A list is shorter now.
            return False

    def _different(self) -> Iterator[Place]:
        """Yield the places of all numbers that have changed since `remember`."""
        now = {place.identity(): place for place in find_numbers(self.model)}
        for identity, before in self._places.items():
            if not before.is_container and not _is_equal(before, now.get(identity)):
                yield before


def _is_equal(before: Place, now: Place | None) -> bool:
    """Return whether a number has the value that it had before."""
    if now is None or type(now.value) is not type(before.value):
        return False
    return now.value is before.value or now.value == before.value


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

"""Detect changes of a model and of edges, and list tensors that a model call stores."""

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import chain
from operator import is_
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeGuard, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map

from gnnak.errors import SubgraphError


def is_inexact(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def real_dtype(tensor: Tensor) -> torch.dtype:
    return tensor.dtype.to_real() if tensor.is_complex() else tensor.dtype


T = TypeVar("T", bound=Tensor)
NUMBERS = (bool, int, float, complex, str, type(None), np.generic)
"""Types of plain values in a model, such as `dropout.p`. This module calls these values
numbers for short, although some are strings or None."""
OF_LIBRARIES = frozenset(vars(nn.Module())) | frozenset(
    ("_user_args", "_fused_user_args", "_edge_user_args")
)
"""Attributes of every module or conv; not searched for numbers and tensors."""
NAMESPACES = (SimpleNamespace, Namespace)
MOST_LEVELS = 4
"""Depth up to which nested containers are searched for numbers and tensors."""
MOST_ENTRIES = 300
"""Largest number of container entries that are searched in one module. A container that
alone has more entries is not searched."""


class Place(NamedTuple):
    """Where a model stores a number, or a container of numbers such as a dict."""

    module: nn.Module
    name: str
    """The name of the value in its module, such as `config['p']`."""
    get: Callable[[Any], Any]
    key: Any
    value: Any
    is_container: bool = False
    is_fixed: bool = False
    """Whether the value is in a tuple or frozen dataclass, so it cannot be set."""

    def identity(self) -> tuple[int, str]:
        return id(self.module), self.name


def find_numbers(model: nn.Module) -> list[Place]:
    """Find the numbers in the attributes of all modules, and containers of numbers."""
    found: list[Place] = []
    for module in model.modules():
        entries_left = iter(range(MOST_ENTRIES))
        values = vars(module)
        for name, value in values.items():
            if name in OF_LIBRARIES:
                continue
            place = Place(module, name, values.get, name, value)
            if _is_number(value):
                found.append(place)
            elif _is_container(value):
                place = place._replace(is_container=True)
                found += _in_container(place, MOST_LEVELS, entries_left)
    return found


def _is_number(value: object) -> bool:
    if isinstance(value, tuple):
        return all(isinstance(entry, NUMBERS) for entry in value)
    return isinstance(value, NUMBERS)


def _is_container(value: object) -> bool:
    if isinstance(value, dict | list | tuple):
        return len(value) <= MOST_ENTRIES
    return isinstance(value, NAMESPACES) or (
        is_dataclass(value) and not isinstance(value, type | nn.Module)
    )


def _in_container(
    container: Place, levels: int, entries_left: Iterator[int]
) -> list[Place]:
    """Return the `Place`s of a container and its numbers; [] if it has no numbers."""
    found: list[Place] = []
    for entry, _ in zip(_entries(container), entries_left, strict=False):
        if not entry.is_container:
            found.append(entry)
        elif levels > 1:
            found += _in_container(entry, levels - 1, entries_left)
    return [container, *found] if found else []


def _entries(container: Place) -> Iterator[Place]:
    module, name, value = container.module, container.name, container.value
    get, keys = _access(value)
    pattern = "[{!r}]" if isinstance(value, dict | list | tuple) else ".{}"
    parameters = getattr(value, "__dataclass_params__", None)
    is_fixed = isinstance(value, tuple) or getattr(parameters, "frozen", False)
    for key in keys:
        try:
            entry = get(key)
        except Exception:
            continue  # a field without a value
        if _is_number(entry) or _is_container(entry):
            label = name + pattern.format(key)
            yield Place(module, label, get, key, entry, not _is_number(entry), is_fixed)


def _access(value: Any) -> tuple[Callable[[Any], Any], list[Any]]:
    """Return a function `get(key)` for the entries of a container, and all keys."""
    if isinstance(value, dict):
        # Subclasses may have methods that raise errors.
        keys = [key for key in dict.keys(value) if isinstance(key, NUMBERS)]
        return partial(dict.get, value), keys
    if isinstance(value, list | tuple):
        kind: Any = list if isinstance(value, list) else tuple
        return partial(kind.__getitem__, value), list(range(kind.__len__(value)))
    if isinstance(value, NAMESPACES):
        return vars(value).get, list(vars(value))
    return partial(getattr, value), [field.name for field in fields(value)]


class ModelWatch:
    """Detects changes of autocast, and of a model's tensors and training modes."""

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
        """Return whether the model or autocast has changed since the last call.

        If `quick`, new modules may be missed. If not, new addresses of buffers are
        ignored, because some modules replace their buffers in each call.
        """
        if quick and self._has_listed() and self._present_state() == self._state:
            return False
        self._list_all()
        before, self._state = self._state, self._present_state()
        if before is None or quick:
            return self._state != before
        return self._state[1:] != before[1:]

    def _list_all(self) -> None:
        self._modules = list(self.model.modules())
        weights = _places(each._parameters for each in self._modules)
        buffers = _places(each._buffers for each in self._modules)
        self._places = weights + buffers
        self._listed = self._present_tensors()
        tensors = [tensor for tensor in self._listed if tensor is not None]
        self._lazy = list(filter(is_lazy, tensors))
        count = len(weights)
        self._weights = list(filter(is_built, self._listed[:count]))
        self._buffers = list(filter(is_built, self._listed[count:]))

    def _has_listed(self) -> bool:
        return all(map(is_, self._present_tensors(), self._listed)) and all(
            map(is_lazy, self._lazy)
        )

    def _present_tensors(self) -> list[Tensor | None]:
        return [tensors.get(name) for tensors, name in self._places]

    def _present_state(self) -> tuple:
        kind = self._weights[0].device.type if self._weights else "cpu"
        return (
            [tensor.data_ptr() for tensor in self._buffers],
            [tensor.data_ptr() for tensor in self._weights],
            [tensor.requires_grad for tensor in self._weights],
            [module.training for module in self._modules],
            torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind),
        )


class NumberWatch:
    """Detects numbers, such as `dropout.p`, that were changed between steps."""

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
        """Store all numbers, to compare them with later values."""
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
        """Context manager: from now on, ignore numbers that change in the block."""
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
        now = {place.identity(): place for place in find_numbers(self.model)}
        for identity, before in self._places.items():
            if not before.is_container and not _is_equal(before, now.get(identity)):
                yield before


def _is_equal(before: Place, now: Place | None) -> bool:
    if now is None or type(now.value) is not type(before.value):
        return False
    return now.value is before.value or now.value == before.value


def _places(parts: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    return [(tensors, name) for tensors in parts for name in tensors]


def built_weights(model: nn.Module) -> list[nn.Parameter]:
    """Return a model's weights that are neither sparse nor lazy (without a shape)."""
    return list(filter(is_built, model.parameters()))


def is_unbuilt(model: nn.Module) -> bool:
    return any(map(is_lazy, chain(model.parameters(), model.buffers())))


def is_built(tensor: T | None) -> TypeGuard[T]:
    """Return whether a tensor is given, dense, and not lazy (without a shape)."""
    return tensor is not None and not is_lazy(tensor) and tensor.layout == torch.strided


class StoredTensors:
    """Tells which tensors a call of a model has stored in attributes of modules."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        # References to all tensors seen, since the id of a freed tensor may be used
        # again.
        self._seen: dict[int, Tensor] = {}
        self.new()

    def new(self) -> dict[tuple[nn.Module, str], list[Tensor]]:
        """Return the tensors that were stored since the last call of `new`."""
        found: dict[tuple[nn.Module, str], list[Tensor]] = {}
        for module in self.model.modules():
            for name, value in _attributes(module):
                inside = _tensors_in(value)
                tensors = [each for each in inside if id(each) not in self._seen]
                if tensors:
                    found[module, name] = tensors
        for tensors in found.values():
            self._seen |= {id(tensor): tensor for tensor in tensors}
        return found


def _attributes(module: nn.Module) -> Iterator[tuple[str, object]]:
    """Yield (name, value) of each attribute; if the value is a dict, of its entries."""
    for name, value in vars(module).items():
        if name in OF_LIBRARIES:
            continue
        if isinstance(value, dict):
            for key, entry in dict.items(value):
                yield f"{name}[{key!r}]", entry
        else:
            yield name, value


def _tensors_in(value: object, levels: int = MOST_LEVELS) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif levels and isinstance(value, dict | list | tuple):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _tensors_in(entry, levels - 1)


class EdgeGuard:
    """Detects overwritten edges without synchronising with the GPU.

    Version counters do not count writes to `edge_index` through `.data` or DLPack. So
    the edges are compared with a copy on the device. If they differ, the outputs of the
    step are multiplied by NaN, and one of the next steps raises an error.
    """

    def __init__(self) -> None:
        # Whether all edges were unchanged so far: on the device, and on the host.
        self._unchanged: tuple[Tensor, Tensor] | None = None

    def guard(self, outputs: Any, unchanged: Tensor) -> Any:
        """Return `outputs`, multiplied by NaN if the flag `unchanged` is False."""
        if self._unchanged is None:
            pin = torch.cuda.is_available()
            on_host = torch.ones((), dtype=torch.bool, device="cpu", pin_memory=pin)
            self._unchanged = torch.ones_like(unchanged), on_host
        so_far, on_host = self._unchanged
        on_host.copy_(so_far.logical_and_(unchanged), non_blocking=True)
        factor = torch.where(unchanged, 1.0, torch.nan)

        def guarded(value: Any) -> Any:
            inexact = isinstance(value, Tensor) and is_inexact(value)
            return value * factor if inexact else value

        return tree_map(guarded, outputs)

    def check(self) -> None:
        """Raise `SubgraphError` if edges of an earlier step were found overwritten."""
        if self._unchanged is not None and not self._unchanged[1]:
            self._unchanged = None
            raise SubgraphError(
                "edge_index of an earlier batch was overwritten through .data or "
                "DLPack, which a captured step cannot follow, so the loss and the "
                "weights are now NaN; load saved weights, and assign a new tensor: "
                "batch.edge_index = new."
            )

"""Find the numbers of a model: attributes of modules, also in dicts, lists and configs.

A captured step uses the numbers of its capture, so changes of these must be noticed.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from torch import nn

NUMBERS = (bool, int, float, complex, str, type(None), np.generic)
"""The types of values that are numbers here."""
OF_LIBRARIES = frozenset(vars(nn.Module())) | frozenset(
    ("_user_args", "_fused_user_args", "_edge_user_args")
)
"""Attributes that PyTorch gives to all modules (weights, hooks, the mode and so on),
and PyG to all convs (names of arguments). They are no numbers of a model."""
NAMESPACES = (SimpleNamespace, Namespace)
"""The types of objects that only have attributes."""
MOST_LEVELS = 4
"""Number of levels of containers in which numbers are looked for."""
MOST_ENTRIES = 300
"""Number of entries of containers that are looked at, per module. Larger containers,
such as vocabularies, are left out."""


class Place(NamedTuple):
    """A number, or a container with numbers, and where it was found.

    A container is a dict, a list, a tuple, a dataclass or a namespace.
    """

    module: nn.Module
    name: str
    """The name of the value in its module, such as `config['p']`."""
    get: Callable[[Any], Any]
    """Takes `key`, and returns the present value."""
    key: Any
    value: Any
    """The value when it was found."""
    is_container: bool = False
    is_fixed: bool = False
    """Whether the value changes only if a container around it is replaced: it is an
    entry of a tuple or of a frozen dataclass."""

    def identity(self) -> tuple[int, str]:
        """Return a key that tells this place from other places of the model."""
        return id(self.module), self.name


def find_numbers(model: nn.Module) -> list[Place]:
    """Return the places of all numbers of a model, and of the containers around them.

    Numbers are ints, floats, bools, strings, None, scalars of NumPy, and tuples of
    these. They are attributes of modules, or entries of containers that are attributes
    of modules, up to `MOST_LEVELS` and `MOST_ENTRIES`.

    Args:
        model: The model.
    """
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
    """Return whether a value is a number, or a tuple of numbers."""
    if isinstance(value, tuple):
        return all(isinstance(entry, NUMBERS) for entry in value)
    return isinstance(value, NUMBERS)


def _is_container(value: object) -> bool:
    """Return whether a value may have numbers as entries, and is not too large."""
    if isinstance(value, dict | list | tuple):
        return len(value) <= MOST_ENTRIES
    return isinstance(value, NAMESPACES) or (
        is_dataclass(value) and not isinstance(value, type | nn.Module)
    )


def _in_container(
    container: Place, levels: int, entries_left: Iterator[int]
) -> list[Place]:
    """Return a container, and all numbers and containers inside it.

    Args:
        container: The place of the container.
        levels: Number of levels of containers to look at, including this one.
        entries_left: Has one value for each entry that may still be looked at.

    Returns:
        The places; none if there is no number inside.
    """
    found: list[Place] = []
    for entry, _ in zip(_entries(container), entries_left, strict=False):
        if not entry.is_container:
            found.append(entry)
        elif levels > 1:
            found += _in_container(entry, levels - 1, entries_left)
    return [container, *found] if found else []


def _entries(container: Place) -> Iterator[Place]:
    """Yield the places of the entries of a container, numbers and containers."""
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
            where = (module, name + pattern.format(key), get, key, entry)
            yield Place(*where, not _is_number(entry), is_fixed)


def _access(value: Any) -> tuple[Callable[[Any], Any], list[Any]]:
    """Return a function that returns an entry of a container, and the keys."""
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

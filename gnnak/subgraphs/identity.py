"""Tell whether two extractors are equal, and describe an extractor in any process.

A user's extractor often defines neither `__eq__` nor `__repr__`. It is then identified
by its class and its attributes.
"""

from __future__ import annotations

from hashlib import sha256
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor

ADDRESS = " at 0x"
"""Text before a memory address in the default `repr` of objects."""


def are_equal(one: object, other: object) -> bool:
    """Return whether two objects are equal, by their attributes if they have no `==`.

    Tensors on a GPU are equal only if they are the same object: comparing their values
    would synchronise.

    >>> class Stars:
    ...     def __init__(self, size):
    ...         self.size = size
    >>> are_equal(Stars(2), Stars(2)), are_equal(Stars(2), Stars(3))
    (True, False)
    """
    try:
        return _are_equal(one, other)
    except RecursionError:
        return False


def describe(value: object) -> str:
    """Return the `repr` of an object, or its class and attributes.

    The text has no memory addresses, so it is the same in all processes.

    >>> class Stars:
    ...     def __init__(self, size):
    ...         self.size = size
    >>> describe(Stars(2))
    'Stars(size=2)'
    """
    try:
        return _describe(value)
    except RecursionError:
        return type(value).__qualname__


def _are_equal(one: Any, other: Any) -> bool:
    """Return whether two objects are equal; see `are_equal`."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        on_host = one.device.type == other.device.type == "cpu"
        return on_host and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_are_equal(a, b) for a, b in pairs)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            _are_equal(one[k], other[k]) for k in one
        )
    if type(one).__eq__ is object.__eq__:
        mine, theirs = _attributes(one), _attributes(other)
        return mine is not None and _are_equal(mine, theirs)
    try:
        return bool(one == other)
    except (TypeError, ValueError, RuntimeError):
        return False


def _describe(value: Any) -> str:
    """Return a text that identifies an object; see `describe`."""
    if isinstance(value, Tensor):
        numbers = value.detach().cpu().contiguous().flatten().view(torch.uint8)
        digest = sha256(numbers.numpy().tobytes()).hexdigest()[:16]
        return f"Tensor({list(value.shape)}, {value.dtype}, {digest})"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(_describe, value))})"
    if isinstance(value, dict):
        items = (f"{_describe(k)}: {_describe(v)}" for k, v in value.items())
        return f"{{{', '.join(items)}}}"
    text = repr(value)
    if ADDRESS not in text:
        return text
    name = getattr(value, "__qualname__", type(value).__qualname__)
    attributes = _attributes(value)
    if attributes is None:
        return str(name).rpartition("<locals>.")[2]
    shown = (f"{k}={_describe(v)}" for k, v in attributes.items())
    return f"{name.rpartition('<locals>.')[2]}({', '.join(shown)})"


def _attributes(value: object) -> dict[str, Any] | None:
    """Return the attributes of an object; None if they do not identify the object."""
    if isinstance(value, FunctionType | MethodType | ModuleType | type):
        return None
    slots = [getattr(kind, "__slots__", ()) for kind in type(value).__mro__]
    names = [[each] if isinstance(each, str) else each for each in slots]
    found = {n: getattr(value, n) for part in names for n in part if hasattr(value, n)}
    if not hasattr(value, "__dict__") and not found:
        return None
    return found | getattr(value, "__dict__", {})

"""List the tensors of a nested record, and rebuild the record with other tensors.

A record is a dataclass, dict or tuple of tensors, plain values or further records; for
example, a `GraphBatch`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar

from torch import Tensor

Record = TypeVar("Record")
DERIVED = "_derived"
"""The attribute in which a dataclass caches values derived from its fields."""


def tensors_of(record: Any) -> list[Tensor]:
    """Return all tensors of a nested record, in a fixed order.

    A record is a dataclass, dict or tuple of tensors, plain values or further records.
    The result includes tensors that a dataclass has computed from its fields and cached
    in its attribute `DERIVED`.

    >>> import torch
    >>> from gnnak.subgraphs.groups import Groups
    >>> tensors_of(Groups(torch.tensor([0, 2]), order=None))
    [tensor([0, 2])]
    """
    found: list[Tensor] = []
    _collect(record, found)
    return found


def one_per_storage(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return one tensor for each block of memory that the given tensors use.

    Tensors that are views of the same tensor share one block.

    >>> import torch
    >>> whole = torch.arange(4)
    >>> len(one_per_storage([whole, whole[:2], torch.zeros(1)]))
    2
    """
    found = {tensor.untyped_storage().data_ptr(): tensor for tensor in tensors}
    return list(found.values())


def _collect(record: Any, found: list[Tensor]) -> None:
    """Append all tensors of a nested record to a list."""
    # The same order as in `_parts`, but without lists of pairs, since every step calls
    # this function.
    if isinstance(record, Tensor):
        found.append(record)
    elif isinstance(record, dict):
        for key in sorted(record):
            _collect(record[key], found)
    elif isinstance(record, tuple):
        for part in record:
            _collect(part, found)
    elif record is not None:
        names = _field_names(type(record))  # type: ignore[arg-type]
        if names is None:
            return
        for name in (*names, DERIVED):
            part = getattr(record, name, None)
            if part is not None:
                _collect(part, found)


def like(record: Record, tensors: Iterable[Tensor]) -> Record:
    """Return a copy of a nested record in which all tensors are replaced.

    Args:
        record: A dataclass, dict or tuple of tensors, plain values or further records.
        tensors: The new tensors, in the order of `tensors_of(record)`.
    """
    return _rebuilt(record, iter(tensors))


def _rebuilt(record: Any, tensors: Iterator[Tensor]) -> Any:
    """Return a copy of a record with the next tensors of an iterator."""
    if isinstance(record, Tensor):
        return next(tensors)
    parts = _parts(record)
    if parts is None:
        return record
    rebuilt = {name: _rebuilt(part, tensors) for name, part in parts}
    if isinstance(record, dict):
        return rebuilt
    if isinstance(record, tuple):
        values = tuple(rebuilt.values())
        return type(record)(*values) if hasattr(record, "_fields") else values
    derived = rebuilt.pop(DERIVED, None)
    copy = replace(record, **rebuilt)
    if derived is not None:
        copy.__dict__[DERIVED] = derived
    return copy


def _parts(record: Any) -> list[tuple[Any, Any]] | None:
    """Return the (key, value) pairs of a dataclass, dict or tuple.

    The key is a field name or a position in the tuple. None for other types.
    """
    if isinstance(record, dict):
        return sorted(record.items())
    if isinstance(record, tuple):
        return list(enumerate(record))
    names = _field_names(type(record))  # type: ignore[arg-type]
    if names is None:
        return None
    parts = [(name, getattr(record, name)) for name in names]
    derived = getattr(record, DERIVED, None)
    return parts if derived is None else [*parts, (DERIVED, derived)]


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    """Return the names of the fields of a dataclass; None for other types."""
    if not is_dataclass(kind):
        return None
    return tuple(field.name for field in fields(kind))

"""Records as flat lists of tensors: what a captured step reads, and where it reads."""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from torch import Tensor

Record = TypeVar("Record")
KEPT = "_kept"
"""Where a record keeps what was derived from its fields, by name."""


def tensors_of(record: Any) -> list[Tensor]:
    """The tensors of a record of records, those it keeps included, in a fixed order.

    >>> import torch
    >>> from gnnak.subgraphs.groups import Groups
    >>> tensors_of(Groups(torch.tensor([0, 2]), order=None))
    [tensor([0, 2])]
    """
    if isinstance(record, Tensor):
        return [record]
    parts = _parts(record) or ()
    return [tensor for _, part in parts for tensor in tensors_of(part)]


def like(record: Record, tensors: Iterable[Tensor]) -> Record:
    """The same record with other tensors, given in the order of `tensors_of`."""
    return _rebuilt(record, iter(tensors))


def _rebuilt(record: Any, tensors: Iterator[Tensor]) -> Any:
    if isinstance(record, Tensor):
        return next(tensors)
    parts = _parts(record)
    if parts is None:
        return record
    made = {name: _rebuilt(part, tensors) for name, part in parts}
    if isinstance(record, dict | tuple):
        return made if isinstance(record, dict) else tuple(made.values())
    kept = made.pop(KEPT, None)
    fresh = replace(record, **made)
    if kept is not None:
        fresh.__dict__[KEPT] = kept
    return fresh


def _parts(record: Any) -> list[tuple[Any, Any]] | None:
    """What a record is made of, by name; None for what has no parts."""
    if isinstance(record, dict):
        return sorted(record.items())
    if isinstance(record, tuple):
        return list(enumerate(record))
    if not is_dataclass(record):
        return None
    parts = [(field.name, getattr(record, field.name)) for field in fields(record)]
    kept = getattr(record, KEPT, None)
    return parts if kept is None else [*parts, (KEPT, kept)]

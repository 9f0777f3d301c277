"""The record of a batch, and functions for all tensors of a nested record."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar, cast

from torch import Tensor

from gnnak.graphs import GraphBatch
from gnnak.subgraphs.rooted import RootedSubgraphs

Record = TypeVar("Record")


@dataclass(frozen=True)
class Shape:
    """The padded sizes of a batch. The last graph consists of all padding nodes."""

    graphs: int
    nodes: int
    edges: int
    subgraphs: int = 0
    copies: int = 0
    edge_copies: int = 0
    fillings: int = 0
    """Number of nonzero entries of `Filling`, the sparse matrix of SubgraphDrop."""

    def fits(self, rows: Mapping[str, int]) -> bool:
        return all(count < getattr(self, axis) for axis, count in rows.items())


@dataclass(frozen=True, eq=False)
class Item:
    """A batch with its rooted subgraphs, padded or not."""

    batch: GraphBatch
    subgraphs: RootedSubgraphs | None = None
    """The rooted subgraphs of the batch; with SubgraphDrop, only the sampled ones. None
    if the network extracts subgraphs itself, or needs none."""
    shape: Shape | None = None
    """The sizes that the batch is padded to. Without padding, the batch's own sizes if
    its training step may be captured, and otherwise None."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further fields of the batch by name, such as positions of nodes."""
    sizes: dict[str, int] | None = None
    """The numbers of real graphs, nodes and so on, on the host; None if not padded."""
    positions: list[int] | None = None
    """Positions of the batch's graphs in the store; None if they are not known."""
    rows: Tensor | None = None
    """[r]: the nodes of one large graph that are trained or scored; None means all."""
    fixed: bool = False
    """Whether every training step has this item, so that a captured step can read the
    item's own tensors instead of copies."""


DERIVED = "_derived"
"""The attribute in which a dataclass caches values derived from its fields."""


def tensors_of(record: Any) -> list[Tensor]:
    """Return all tensors of a nested record, including cached ones, in a fixed order.

    A record is a dataclass, dict or tuple of tensors, plain values or further records.
    """
    if isinstance(record, Tensor):
        return [record]
    return [tensor for _, part in _parts(record) or () for tensor in tensors_of(part)]


def one_per_storage(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return one tensor for each block of memory, which several views may share."""
    found = {tensor.untyped_storage().data_ptr(): tensor for tensor in tensors}
    return list(found.values())


def like(record: Record, tensors: Iterable[Tensor]) -> Record:
    """Return a copy of a record with `tensors` in place of `tensors_of(record)`."""
    unused: Iterator[Any] = iter(tensors)
    if isinstance(record, Tensor):
        return next(unused)
    parts = _parts(record)
    if parts is None:
        return record
    rebuilt: dict[Any, Any] = {name: like(part, unused) for name, part in parts}
    if isinstance(record, dict):
        return cast(Record, rebuilt)
    if isinstance(record, tuple):
        values: Any = tuple(rebuilt.values())
        return type(record)(*values) if hasattr(record, "_fields") else values
    derived = rebuilt.pop(DERIVED, None)
    copy: Any = replace(cast(Any, record), **rebuilt)
    if derived is not None:
        copy.__dict__[DERIVED] = derived
    return copy


def _parts(record: Any) -> list[tuple[Any, Any]] | None:
    if isinstance(record, dict):
        return [(key, record[key]) for key in sorted(record, key=str)]
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
    if not is_dataclass(kind):
        return None
    return tuple(field.name for field in fields(kind))

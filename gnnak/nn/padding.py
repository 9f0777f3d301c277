"""Tell BatchNorms how many rows of a padded batch are real.

`GraphBatch` and `RootedSubgraphs` store the numbers of their real rows. A BatchNorm
gets only a tensor, often inside a GNN that does not know about padding. So the layer
that calls the GNN sets the numbers in a context variable, and every BatchNorm inside
the GNN reads them. Context variables are local to a thread.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gnnak.graphs.real import RealCounts
from gnnak.subgraphs.rooted import RootedSubgraphs

RowAxis = Literal["nodes", "edges", "graphs"]
"""What the rows of a BatchNorm's input are; see `RealRows`."""


@dataclass(frozen=True, eq=False)
class RealRows:
    """Numbers of real rows, as 0-dim tensors; None = there is no padding.

    A GNN that runs on rooted subgraphs counts node copies, edge copies and subgraphs.
    """

    nodes: Tensor | None = None
    edges: Tensor | None = None
    graphs: Tensor | None = None


ALL_REAL = RealRows()
_scope: ContextVar[RealRows] = ContextVar("real_rows", default=ALL_REAL)


@contextmanager
def real_rows(rows: RealRows) -> Iterator[None]:
    """Context manager: BatchNorms in training ignore padding rows of their input.

    Within the `with` block, a BatchNorm computes mean and variance from the real rows,
    which must come first. Padding rows are replaced by the mean, so that their values
    stay bounded from layer to layer. The numbers of real rows are tensors on the
    device, so nothing synchronises. Padding is not supported in training with several
    processes (distributed data parallel, DDP).

    >>> from gnnak.nn.norm import BatchNorm
    >>> norm = BatchNorm(1)
    >>> with real_rows(RealRows(nodes=torch.tensor(2))):
    ...     rows = norm(torch.tensor([[-1.0], [1.0], [5.0]]))
    >>> [round(row, 3) for row in rows.flatten().tolist()]
    [-1.0, 1.0, 0.0]
    """
    token = _scope.set(rows)
    try:
        yield
    finally:
        _scope.reset(token)


def current_real_rows() -> RealRows:
    """Return the argument of the innermost enclosing `with real_rows(...)` block.

    Outside of such a block, and in code compiled by `torch.compile`, return `ALL_REAL`.
    """
    return ALL_REAL if torch.compiler.is_compiling() else _scope.get()


def on_graph(real: RealCounts | None) -> AbstractContextManager[None]:
    """Return a context for modules that run on the graphs of a batch."""
    if real is None:
        return _unpadded()
    return real_rows(RealRows(real.nodes, real.edges, real.graphs))


def on_copies(subgraphs: RootedSubgraphs) -> AbstractContextManager[None]:
    """Return a context for modules that run on rooted subgraphs, such as a base GNN."""
    real = subgraphs.real
    if real is None:
        return _unpadded()
    return real_rows(RealRows(real.copies, real.edge_copies, real.subgraphs))


def on_rows(count: Tensor | None) -> AbstractContextManager[None]:
    """Return a context for node states of which `count` are real; None = all."""
    return _unpadded() if count is None else real_rows(RealRows(nodes=count))


def _unpadded() -> AbstractContextManager[None]:
    """Return a context in which BatchNorms treat no row as padding."""
    padded = current_real_rows() is not ALL_REAL
    return real_rows(ALL_REAL) if padded else nullcontext()

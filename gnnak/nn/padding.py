"""Tell norms which rows of a padded batch are real.

The real counts travel with `GraphBatch` and `RootedSubgraphs`. A norm gets one tensor
only, often inside a module that knows nothing of padding, so the layer that calls the
module opens a scope: inside it, "nodes" and "edges" are those of the graph that the
module runs on. Scopes are context variables: every thread has its own.
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
"""What a norm has rows of."""


@dataclass(frozen=True, eq=False)
class RealRows:
    """The number of real rows of each axis, 0-dim int64; None = all rows are real."""

    nodes: Tensor | None = None
    edges: Tensor | None = None
    graphs: Tensor | None = None


ALL_REAL = RealRows()
_scope: ContextVar[RealRows] = ContextVar("real_rows", default=ALL_REAL)


@contextmanager
def real_rows(rows: RealRows) -> Iterator[None]:
    """Inside, norms in training take their statistics from real rows only.

    Padding rows, which follow the real ones, get the norm's output for the mean, so
    that they never grow from layer to layer. The counts are read on the device: no
    synchronisation. Batches are padded in runs of one process only.

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
    """Return the counts of the innermost `real_rows`."""
    return ALL_REAL if torch.compiler.is_compiling() else _scope.get()


def on_graph(real: RealCounts | None) -> AbstractContextManager[None]:
    """Open the scope of modules that run on the graph itself."""
    if real is None:
        return _unpadded()
    return real_rows(RealRows(real.nodes, real.edges, real.graphs))


def on_copies(subgraphs: RootedSubgraphs) -> AbstractContextManager[None]:
    """Open the scope of modules that run on the copies of rooted subgraphs."""
    real = subgraphs.real
    if real is None:
        return _unpadded()
    return real_rows(RealRows(real.copies, real.edge_copies, real.subgraphs))


def _unpadded() -> AbstractContextManager[None]:
    """Open a scope without padding; nothing to do where there is none anyway."""
    padded = current_real_rows() is not ALL_REAL
    return real_rows(ALL_REAL) if padded else nullcontext()

"""Tell BatchNorms how many rows of a padded batch are real.

`GraphBatch` and `RootedSubgraphs` store the number of their real rows. A BatchNorm gets
only a tensor, often inside a base GNN that does not know about padding. So the layer
that calls the base GNN sets the numbers in a context variable, and every BatchNorm
inside reads them. A base GNN may run on the graph, where its rows are nodes and edges,
or on rooted subgraphs, where its rows are node copies and edge copies. Context
variables are local to a thread.
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
"""What the rows of a BatchNorm's input are, seen from the module that it is in."""


@dataclass(frozen=True, eq=False)
class RealRows:
    """Numbers of real rows, as 0-dim int64 tensors; None = all rows are real."""

    nodes: Tensor | None = None
    """Real nodes, or node copies."""
    edges: Tensor | None = None
    """Real edges, or edge copies."""
    graphs: Tensor | None = None
    """Real graphs, or rooted subgraphs."""


ALL_REAL = RealRows()
"""No padding on any axis."""
_scope: ContextVar[RealRows] = ContextVar("real_rows", default=ALL_REAL)


@contextmanager
def real_rows(rows: RealRows) -> Iterator[None]:
    """Inside, BatchNorms in training compute their statistics from real rows only.

    Real rows come first. Padding rows are set to the mean before the affine map, so
    that their values do not grow from layer to layer. The numbers stay on the device,
    so nothing synchronises. Padding is not supported with several processes (DDP).

    Args:
        rows: The numbers of real rows.

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
    """Return the numbers set by the innermost `real_rows`."""
    return ALL_REAL if torch.compiler.is_compiling() else _scope.get()


def on_graph(real: RealCounts | None) -> AbstractContextManager[None]:
    """Return `real_rows` for modules that run on the nodes and edges of the graph."""
    if real is None:
        return _unpadded()
    return real_rows(RealRows(real.nodes, real.edges, real.graphs))


def on_copies(subgraphs: RootedSubgraphs) -> AbstractContextManager[None]:
    """Return `real_rows` for modules that run on node and edge copies of subgraphs."""
    real = subgraphs.real
    if real is None:
        return _unpadded()
    return real_rows(RealRows(real.copies, real.edge_copies, real.subgraphs))


def _unpadded() -> AbstractContextManager[None]:
    """Return `real_rows` without padding; a null context if that is set already."""
    padded = current_real_rows() is not ALL_REAL
    return real_rows(ALL_REAL) if padded else nullcontext()

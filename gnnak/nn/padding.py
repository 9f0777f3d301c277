"""Tell BatchNorms how many rows of a padded batch are real, that is, not padding.

`GraphBatch` and `RootedSubgraphs` store the numbers of their real rows. A BatchNorm
gets only a tensor, often inside a base GNN that does not know about padding. So the
layer that calls the base GNN sets the numbers in a context variable, and every
BatchNorm inside the base GNN reads them. A base GNN may run on the graph, where its
rows are nodes and edges. Or it runs on rooted subgraphs, where its rows are node copies
and edge copies: nodes and edges as seen in one rooted subgraph. Context variables are
local to a thread.
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
"""What the rows of a BatchNorm's input are. Inside a base GNN that runs on rooted
subgraphs, "nodes" means node copies, "edges" edge copies and "graphs" subgraphs."""


@dataclass(frozen=True, eq=False)
class RealRows:
    """Numbers of rows that are not padding, as 0-dim tensors; None = no padding."""

    nodes: Tensor | None = None
    """Number of real nodes, or of real node copies."""
    edges: Tensor | None = None
    """Number of real edges, or of real edge copies."""
    graphs: Tensor | None = None
    """Number of real graphs, or of real rooted subgraphs."""


ALL_REAL = RealRows()
"""The value of `RealRows` without padding: all nodes, edges and graphs are real."""
_scope: ContextVar[RealRows] = ContextVar("real_rows", default=ALL_REAL)


@contextmanager
def real_rows(rows: RealRows) -> Iterator[None]:
    """Context manager: BatchNorms in training compute statistics from real rows only.

    Real rows must come before padding rows. Within the `with` block, a BatchNorm treats
    each padding row as if it were the mean of the real rows, so that padding does not
    grow from layer to layer. The numbers of real rows are tensors on the device, so the
    CPU does not wait for a GPU. Padding is not supported in training with several
    processes (distributed data parallel, DDP).

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
    """Return the numbers of real rows that the innermost `real_rows` block has set.

    Outside of such a block, and in code compiled by `torch.compile`, return `ALL_REAL`.
    """
    return ALL_REAL if torch.compiler.is_compiling() else _scope.get()


def on_graph(real: RealCounts | None) -> AbstractContextManager[None]:
    """Return a context in which BatchNorms ignore padding nodes, edges and graphs.

    It is for modules that run on the whole graph.

    Args:
        real: Numbers of nodes, edges and graphs that are not padding; None if the batch
            has no padding.
    """
    if real is None:
        return _unpadded()
    return real_rows(RealRows(real.nodes, real.edges, real.graphs))


def on_copies(subgraphs: RootedSubgraphs) -> AbstractContextManager[None]:
    """Return a context in which BatchNorms ignore padding of rooted subgraphs.

    It is for modules that run on the disjoint union of all rooted subgraphs.
    """
    real = subgraphs.real
    if real is None:
        return _unpadded()
    return real_rows(RealRows(real.copies, real.edge_copies, real.subgraphs))


def _unpadded() -> AbstractContextManager[None]:
    """Return a context in which BatchNorms treat no row as padding."""
    padded = current_real_rows() is not ALL_REAL
    return real_rows(ALL_REAL) if padded else nullcontext()

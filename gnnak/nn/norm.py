"""BatchNorm for padded batches, and for training with several processes (DDP).

With `real_rows`, a layer stores the numbers of real rows in a context variable, which
is local to the thread. All BatchNorms inside a GNN read this variable.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import unwrap
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gnnak.backend import operation
from gnnak.errors import OptionError
from gnnak.graphs.real import RealCounts
from gnnak.subgraphs.rooted import RootedSubgraphs

RowAxis = Literal["nodes", "edges", "graphs"]
"""Whether a row of a BatchNorm's input belongs to a node, an edge or a graph."""


@dataclass(frozen=True, eq=False)
class RealRows:
    """Numbers of real nodes, edges and graphs of a padded batch, as scalar tensors.

    On rooted subgraphs, the fields count the real node copies, edge copies and
    subgraphs. A field is None if there is no padding.
    """

    nodes: Tensor | None = None
    edges: Tensor | None = None
    graphs: Tensor | None = None


ALL_REAL = RealRows()
_scope: ContextVar[RealRows] = ContextVar("real_rows", default=ALL_REAL)


@contextmanager
def real_rows(rows: RealRows) -> Iterator[None]:
    """Context manager: BatchNorms in training use only real rows, which come first.

    BatchNorms set padding rows to the mean, so that they stay bounded. Nothing
    synchronises, since the numbers of rows are tensors. Distributed training is not
    supported.
    """
    token = _scope.set(rows)
    try:
        yield
    finally:
        _scope.reset(token)


def current_real_rows() -> RealRows:
    """Return the counts that `real_rows` has set; in compiled code, `ALL_REAL`."""
    return ALL_REAL if torch.compiler.is_compiling() else _scope.get()


def on_graph(real: RealCounts | None) -> AbstractContextManager[None]:
    if real is None:
        return _unpadded()
    return real_rows(RealRows(real.nodes, real.edges, real.graphs))


def on_copies(subgraphs: RootedSubgraphs) -> AbstractContextManager[None]:
    real = subgraphs.real
    if real is None:
        return _unpadded()
    return real_rows(RealRows(real.copies, real.edge_copies, real.subgraphs))


def on_rows(count: Tensor | None) -> AbstractContextManager[None]:
    """Return a `real_rows` context for `count` real rows; None means no padding."""
    return _unpadded() if count is None else real_rows(RealRows(nodes=count))


def _unpadded() -> AbstractContextManager[None]:
    """Return a context manager in which BatchNorms treat no row as padding."""
    padded = current_real_rows() is not ALL_REAL
    return real_rows(ALL_REAL) if padded else nullcontext()


class BatchNorm(nn.BatchNorm1d):
    r"""Normalise channels: $\gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta$.

    In training, there are three differences from `torch.nn.BatchNorm1d`:

    - A batch of one row, such as a one-node graph, is normalised with the running
      statistics, without an error.
    - With several processes (DDP), mean and variance are over the rows of all of them,
      so that the number of processes does not change the result.
    - Within a `with real_rows(...)` block, padding rows are ignored. `rows` says which
      field of `RealRows` counts the rows of the input.
    """

    def __init__(self, channels: int, rows: RowAxis = "nodes", **options: Any) -> None:
        super().__init__(channels, **options)
        self.rows: RowAxis = rows

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        if several_processes():
            return self._over_processes(x)
        return self.over_rows(x)

    @operation
    def over_rows(self, x: Tensor) -> Tensor:
        """Normalise `x`, [n, c], by statistics of its rows, in this process only."""
        real = self.real_rows()
        if real is not None:
            return self._over_real_rows(x, real)
        if x.size(0) > 1:
            return super().forward(x)
        return self._with_running_statistics(x)

    def real_rows(self) -> Tensor | None:
        """Return the number of real rows, a scalar, or None if there is no padding."""
        return getattr(current_real_rows(), self.rows)

    def _with_running_statistics(self, x: Tensor) -> Tensor:
        return nn.functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )

    def _over_real_rows(self, x: Tensor, count: Tensor) -> Tensor:
        running = self.running_mean, self.running_var
        if running[0] is None or running[1] is None or self.momentum is None:
            raise OptionError(
                "a BatchNorm without running statistics or momentum cannot ignore "
                "padding; build it with both."
            )
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(count > 1)
        parameters = self.weight, self.bias, self.momentum, self.eps
        return unwrap(norm_real_rows)(x, count, *running, *parameters)

    def _over_processes(self, x: Tensor) -> Tensor:
        narrow, x = x.dtype, x if x.dtype == torch.double else x.float()
        rows = torch.tensor([x.size(0)], dtype=x.dtype, device=x.device)
        dist.all_reduce(rows)
        if rows <= 1:
            return self._with_running_statistics(x).to(narrow)
        mean = _SumOverProcesses.apply(x.sum(dim=0)) / rows
        centred = x - mean
        variance = _SumOverProcesses.apply(centred.square().sum(dim=0)) / rows
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.momentum is not None
        assert self.num_batches_tracked is not None
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            unbiased = (variance * rows / (rows - 1)).to(self.running_var.dtype)
            self.running_var.lerp_(unbiased, self.momentum)
        scaled = centred * (variance + self.eps).rsqrt()
        if self.affine:
            scaled = scaled * self.weight + self.bias
        return scaled.to(narrow)


@operation
def norm_real_rows(
    x: Tensor,
    count: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float,
    eps: float,
) -> Tensor:
    """Apply training-mode batch norm to `x`, [n, c], whose first `count` rows are real.

    The mean of the real rows replaces padding rows. With fewer than two real rows, `x`
    is normalised by the running statistics, if any.
    """
    wide = x if x.dtype == torch.double else x.float()
    padding = (torch.arange(x.size(0), device=x.device) >= count)[:, None]
    rows, several = count.clamp(min=1), count > 1
    mean = wide.masked_fill(padding, 0).sum(dim=0) / rows
    centre = mean if running_mean is None else torch.where(several, mean, running_mean)
    centred = (wide - centre).masked_fill(padding, 0)
    variance = spread = centred.square().sum(dim=0) / rows
    if running_var is not None:
        spread = torch.where(several, variance, running_var)
    with torch.no_grad():
        unbiased = variance * rows / (rows - 1).clamp(min=1)
        for running, now in ((running_mean, mean), (running_var, unbiased)):
            if running is not None:
                now = torch.where(several, now.to(running.dtype), running)
                running.lerp_(now, momentum)
    scaled = centred * spread.add(eps).rsqrt()
    scaled = scaled if weight is None else scaled * weight
    return (scaled if bias is None else scaled + bias).to(x.dtype)


class NormReluDropout(nn.Sequential):
    """BatchNorm, ReLU and dropout, applied to the output of a conv."""

    def __init__(self, channels: int, dropout: float = 0.0) -> None:
        super().__init__(BatchNorm(channels), nn.ReLU(), nn.Dropout(dropout))

    @operation
    def added_to(self, x: Tensor, out: Tensor) -> Tensor:
        """Return `x + self(out)`: a residual sum around a conv that maps x to out."""
        return x + self(out)


class _SumOverProcesses(torch.autograd.Function):
    """Sum a tensor over all processes, in the forward and the backward pass."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        total = value.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Sum the gradients of all processes, since every process uses the sum."""
        total = gradients[0].clone()
        dist.all_reduce(total)
        return total


def several_processes() -> bool:
    """Return whether several processes train the model (distributed data parallel)."""
    initialized = dist.is_available() and dist.is_initialized()
    return initialized and dist.get_world_size() > 1

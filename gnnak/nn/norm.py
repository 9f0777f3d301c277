"""BatchNorm for padded batches, and for training with several processes (DDP).

With `real_rows`, a layer stores the numbers of real rows in a context variable, which
is local to the thread. All BatchNorms inside a GNN read this variable.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from inspect import unwrap
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.overrides import handle_torch_function, has_torch_function_unary

from gnnak.backend import operation
from gnnak.distributed import gather_processes, several_processes, sum_over_processes
from gnnak.errors import OptionError
from gnnak.graphs.real import RealCounts
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Norm, check_choice

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
    synchronises, since the numbers of rows are tensors.
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
        return self.over_rows(x) if self.training else super().forward(x)

    @operation
    def over_rows(self, x: Tensor) -> Tensor:
        """Normalise `x`, [n, c], by statistics of the rows of all processes."""
        real = self.real_rows()
        if self.synced:
            return norm_over_processes(self, x, real)
        if real is not None:
            return self._over_real_rows(x, real)
        if x.size(0) > 1:
            return super().forward(x)
        return self._with_running_statistics(x)

    def real_rows(self) -> Tensor | None:
        """Return the number of real rows, a scalar, or None if there is no padding."""
        return getattr(current_real_rows(), self.rows)

    @property
    def synced(self) -> bool:
        """Whether statistics are over the rows of several processes."""
        return several_processes()

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


@operation
def norm_over_processes(
    norm: BatchNorm | nn.SyncBatchNorm, x: Tensor, real: Tensor | None
) -> Tensor:
    """Normalise `x`, [n, c], by statistics of the real rows of all processes."""
    wide = x if x.dtype == torch.double else x.float()
    constants = batch_constants(norm, wide, real, synced=True)
    is_real = None if real is None else real_mask(x, real)
    weight, bias = norm.weight, norm.bias
    if weight is None:
        weight, bias = wide.new_ones(x.size(1)), wide.new_zeros(x.size(1))
    return _SyncedNorm.apply(wide, weight, bias, *constants, is_real).to(x.dtype)


def real_mask(x: Tensor, real: Tensor) -> Tensor:
    """Return a mask, [n, 1], that is True for the first `real` rows of `x`, [n, c]."""
    return (torch.arange(x.size(0), device=x.device) < real)[:, None]


class NoNorm(nn.Module):
    """Takes the place of a BatchNorm: keeps real rows, and sets padding rows to 0.

    Sums over padding grow from layer to layer, so that without a norm they could
    overflow, and gradients would be NaN.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return `x`, [n, c]; rows of padding nodes or node copies are 0."""
        real = current_real_rows().nodes
        return x if real is None else torch.where(real_mask(x, real), x, 0)


def make_norm(norm: Norm, channels: int) -> nn.Module:
    check_choice("norm", norm, get_args(Norm))
    return BatchNorm(channels) if norm == "batch" else NoNorm()


@torch.no_grad()
def batch_constants(
    norm: Any, x: Tensor, real: Tensor | None, synced: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, 1 / sqrt(variance + eps) and number of real rows, [c] each.

    If `synced`, these are over all processes. Running statistics are updated, and
    they are used in place of mean and variance if there are fewer than two rows.
    """
    mean, m2, rows = _column_statistics(x, real)
    if synced:
        mean, m2, rows = _over_all_processes(mean, m2, rows)
    # This boolean stays on the device: reading it on the host would synchronise.
    several = rows > 1
    unbiased, variance = m2 / (rows - 1).clamp(min=1), m2 / rows.clamp(min=1)
    pairs = ((norm.running_mean, mean), (norm.running_var, unbiased))
    if norm.running_mean is not None:
        mean = torch.where(several, mean, norm.running_mean)
        variance = torch.where(several, variance, norm.running_var)
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(several.any())
    for running, now in pairs:
        if running is not None:
            now = torch.where(several, now.to(running.dtype), running)
            share = norm.momentum
            if share is None:  # the average over all batches
                share = 1 / norm.num_batches_tracked.to(now).clamp(min=1)
            running.lerp_(now, share)
    return mean, (variance + norm.eps).rsqrt(), rows


def _column_statistics(x: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, sum of squared deviations and number of real rows, [c] each."""
    x = x.to(torch.promote_types(x.dtype, torch.float))
    if real is None:
        rows = torch.full_like(x[:0].sum(dim=0), x.size(0))
        mean = x.sum(dim=0) / rows.clamp(min=1)
        return mean, (x - mean).square().sum(dim=0), rows
    is_real = real_mask(x, real)
    rows = real.to(x.dtype).expand(x.size(1))
    mean = torch.where(is_real, x, 0).sum(dim=0) / rows.clamp(min=1)
    return mean, torch.where(is_real, x - mean, 0).square().sum(dim=0), rows


def _over_all_processes(*statistics: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Merge the statistics of all processes, as `_column_statistics` returns them."""
    means, m2s, rows = gather_processes(torch.stack(statistics)).unbind(dim=1)
    total = rows.sum(dim=0)
    mean = (means * rows).sum(dim=0) / total.clamp(min=1)
    between = (rows * (means - mean).square()).sum(dim=0)
    return mean, m2s.sum(dim=0) + between, total


def norm_gradients(
    grad: Tensor, normed: Tensor, scale: Tensor, total: Tensor, is_real: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of input, weight and bias of a norm over all processes.

    Let x be the normalised input `normed`, and let N = `total` be the number of real
    rows of all processes. Then grad_bias = sum(grad), grad_weight = sum(grad * x), and
    grad_h = scale * (grad - (sum(grad) + x * sum(grad * x)) / N).
    """
    own = torch.stack([grad.sum(dim=0), (grad * normed).sum(dim=0)])
    of_grad, of_product = sum_over_processes(own.clone())
    through = (of_grad + normed * of_product) / total.clamp(min=1)
    needed = total > 1 if is_real is None else is_real & (total > 1)
    return scale * (grad - torch.where(needed, through, 0)), own[1], own[0]


class _SyncedNorm(torch.autograd.Function):
    """Batch norm with statistics of all processes; padding rows become the mean."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        mean: Tensor,
        rstd: Tensor,
        total: Tensor,
        is_real: Tensor | None,
    ) -> Tensor:
        normed = (x - mean) * rstd
        if is_real is not None:
            normed = torch.where(is_real, normed, 0)
        ctx.save_for_backward(normed, weight * rstd, total, is_real)
        return normed * weight + bias

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        normed, scale, total, is_real = ctx.saved_tensors
        if is_real is not None:
            grad = torch.where(is_real, grad, 0)
        found = norm_gradients(grad, normed, scale, total, is_real)
        return *found, None, None, None, None


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


@contextmanager
def padded_sync_norms(norms: Sequence[nn.SyncBatchNorm]) -> Iterator[None]:
    """Context manager: PyTorch's norms over all processes ignore padding.

    Unlike PyTorch's own code, `sync_norm` also runs on CPUs, and in captured steps.
    """
    for norm in norms:
        norm.forward = partial(sync_norm, norm)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for norm in norms:
            del norm.forward


def sync_norm(norm: nn.SyncBatchNorm, x: Tensor, real: Tensor | None = None) -> Tensor:
    """Compute `norm(x)`, [n, c]; a `TorchFunctionMode` can pass the number of rows."""
    if x.dim() != 2:
        return nn.SyncBatchNorm.forward(norm, x)
    if not norm.training or not several_processes():
        return nn.BatchNorm1d.forward(norm, x)
    if has_torch_function_unary(x):
        return handle_torch_function(sync_norm, (x,), norm, x, real=real)
    return norm_over_processes(norm, x, real)

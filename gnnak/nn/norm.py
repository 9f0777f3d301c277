"""BatchNorm over rows, of one process or of several that train together."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gnnak.fast.kernels import has_fast_kernels
from gnnak.fast.layers.norm import norm_relu_add, norm_rows
from gnnak.fast.layers.rows import Rows
from gnnak.nn.padding import current_real_rows


class BatchNorm(nn.BatchNorm1d):
    r"""$\gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta$ over the rows.

    A single row, as of a one-node graph, is no error: it has no deviation, so it is
    normed with the running statistics. Where several processes train together, the
    statistics are those of all their rows, on any device, so that the number of
    processes does not change the result; a process may then even have no row. Rows
    of padding are left out inside `real_rows`.

    Attributes:
        fused: Whether to use fused kernels where there are some; the same values.
    """

    fused = True

    def forward(self, x: Tensor) -> Tensor:
        """Norm rows [n, c]."""
        if not self.training:
            return super().forward(x)
        if several_processes():
            return self._over_processes(x)
        if self.can_fuse(x):
            return norm_rows(self, x)
        counts = current_real_rows()
        if counts and x.size(0) in counts:
            return self._over_real_rows(x, counts[x.size(0)])
        if x.size(0) > 1:
            return super().forward(x)
        return self._with_running_statistics(x)

    def can_fuse(self, x: Tensor) -> bool:
        """Whether there are fused kernels for this norm on these rows."""
        rows = x.dim() == 2 and x.size(0) > 1 and x.stride(1) == 1
        if not rows or not self.fusable or not has_fast_kernels(x):
            return False
        return not several_processes()

    @property
    def fusable(self) -> bool:
        """Whether this norm has all that fused kernels count on."""
        whole = self.affine and self.track_running_stats and self.momentum is not None
        return self.fused and whole

    def _with_running_statistics(self, x: Tensor) -> Tensor:
        return nn.functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )

    def _over_real_rows(self, x: Tensor, count: Tensor) -> Tensor:
        """Norm with the statistics of the first `count` rows, if these are several."""
        running = self.running_mean
        assert running is not None
        assert self.running_var is not None
        narrow, x = x.dtype, x if x.dtype == torch.double else x.float()
        padding = (torch.arange(x.size(0), device=x.device) >= count)[:, None]
        rows, several = count.clamp(min=1), count > 1
        mean = x.masked_fill(padding, 0).sum(dim=0) / rows
        centred = x - torch.where(several, mean, running)
        centred = centred.masked_fill(padding, 0)
        variance = centred.square().sum(dim=0) / rows
        scale = torch.where(several, variance, self.running_var).add(self.eps).rsqrt()
        with torch.no_grad():
            self._remember(mean, variance * rows / (rows - 1).clamp(min=1), several)
        return (centred * scale * self.weight + self.bias).to(narrow)

    def _over_processes(self, x: Tensor) -> Tensor:
        narrow, x = x.dtype, x if x.dtype == torch.double else x.float()
        rows = torch.tensor([x.size(0)], dtype=x.dtype, device=x.device)
        dist.all_reduce(rows)
        if rows <= 1:
            return self._with_running_statistics(x).to(narrow)
        mean = _SumOverProcesses.apply(x.sum(dim=0)) / rows
        centred = x - mean
        variance = _SumOverProcesses.apply(centred.square().sum(dim=0)) / rows
        with torch.no_grad():
            self._remember(mean, variance * rows / (rows - 1))
        scaled = centred * (variance + self.eps).rsqrt()
        return (scaled * self.weight + self.bias).to(narrow)

    def _remember(
        self, mean: Tensor, variance: Tensor, wanted: Tensor | None = None
    ) -> None:
        """Move the running statistics towards those of this batch, where wanted."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.momentum is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1 if wanted is None else wanted)
        for running, now in ((self.running_mean, mean), (self.running_var, variance)):
            now = now.to(running.dtype)
            if wanted is not None:
                now = torch.where(wanted, now, running)
            running.lerp_(now, self.momentum)


class NormReluDropout(nn.Sequential):
    """BatchNorm, ReLU, dropout: what follows a conv, before it is added to its input.

    Args:
        channels: Width of the rows.
        dropout: Share of entries dropped.
    """

    def __init__(self, channels: int, dropout: float = 0.0) -> None:
        super().__init__(BatchNorm(channels), nn.ReLU(), nn.Dropout(dropout))

    def added_to(self, x: Tensor, out: Tensor) -> Tensor:
        """`x + self(out)`, [n, c]."""
        norm, _, dropout = self
        assert isinstance(norm, BatchNorm)
        assert isinstance(dropout, nn.Dropout)
        drops = self.training and dropout.p > 0
        if norm.can_fuse(out) and not drops and x.dtype == out.dtype:
            return norm_relu_add(norm, Rows(out), x)
        return x + self(out)


class _SumOverProcesses(torch.autograd.Function):
    """The sum of all processes' tensors; so is its gradient."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        """Sum over processes."""
        total = value.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Every process's value went into every process's sum."""
        total = gradients[0].clone()
        dist.all_reduce(total)
        return total


def several_processes() -> bool:
    """Whether several processes train together."""
    if not dist.is_available() or not dist.is_initialized():
        return False
    return dist.get_world_size() > 1

"""BatchNorm over rows, of one process or of several that train together."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


class BatchNorm(nn.BatchNorm1d):
    r"""$\gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta$ over the rows.

    A single row, as of a one-node graph, is no error: it has no deviation, so it is
    normed with the running statistics. Where several processes train together, the
    statistics are those of all their rows, on any device, so that the number of
    processes does not change the result; a process may then even have no row.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Norm rows [n, c]."""
        if not self.training:
            return super().forward(x)
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            return self._over_processes(x)
        if x.size(0) > 1:
            return super().forward(x)
        return self._with_running_statistics(x)

    def _with_running_statistics(self, x: Tensor) -> Tensor:
        return nn.functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )

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

    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics towards those of this batch."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.momentum is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
        self.running_var.lerp_(variance.to(self.running_var.dtype), self.momentum)


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

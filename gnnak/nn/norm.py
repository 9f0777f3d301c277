"""BatchNorm for padded batches and for training in several processes (DDP)."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gnnak.backend import operation
from gnnak.nn.padding import RowAxis, current_real_rows


class BatchNorm(nn.BatchNorm1d):
    r"""$\gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta$ over the rows.

    There are three differences from `torch.nn.BatchNorm1d` in training. A batch of one
    row, such as a one-node graph, is no error: it is normalised with the running
    statistics. With several processes (DDP), on CPU or GPU, the statistics are those of
    the rows of all processes, so that the number of processes does not change the
    result; a process may have no rows. Inside `real_rows`, padding rows are ignored.

    Args:
        channels: Width of the rows.
        rows: Whether the rows are nodes, edges or graphs; selects the number of real
            rows of a padded batch.
        options: Other options of `torch.nn.BatchNorm1d`.
    """

    def __init__(self, channels: int, rows: RowAxis = "nodes", **options: Any) -> None:
        super().__init__(channels, **options)
        self.rows: RowAxis = rows

    def forward(self, x: Tensor) -> Tensor:
        """Normalise rows [n, c]."""
        if not self.training:
            return super().forward(x)
        if several_processes():
            return self._over_processes(x)
        return self.over_rows(x)

    @operation
    def over_rows(self, x: Tensor) -> Tensor:
        """Normalise rows [n, c] with the statistics of this process's batch."""
        real = self.real_rows()
        if real is not None:
            return self._over_real_rows(x, real)
        if x.size(0) > 1:
            return super().forward(x)
        return self._with_running_statistics(x)

    def real_rows(self) -> Tensor | None:
        """Return the number of real rows of the current batch, 0-dim; None = all."""
        return getattr(current_real_rows(), self.rows)

    def _with_running_statistics(self, x: Tensor) -> Tensor:
        return nn.functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )

    def _over_real_rows(self, x: Tensor, count: Tensor) -> Tensor:
        """Normalise with the statistics of the first `count` rows.

        If there are fewer than two, use the running statistics. Padding rows are set to
        the mean.
        """
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
            self._update_running(
                mean, variance * rows / (rows - 1).clamp(min=1), several
            )
        return (centred * scale * self.weight + self.bias).to(narrow)

    def _over_processes(self, x: Tensor) -> Tensor:
        """Normalise with the statistics of the rows of all processes."""
        narrow, x = x.dtype, x if x.dtype == torch.double else x.float()
        rows = torch.tensor([x.size(0)], dtype=x.dtype, device=x.device)
        dist.all_reduce(rows)
        if rows <= 1:
            return self._with_running_statistics(x).to(narrow)
        mean = _SumOverProcesses.apply(x.sum(dim=0)) / rows
        centred = x - mean
        variance = _SumOverProcesses.apply(centred.square().sum(dim=0)) / rows
        with torch.no_grad():
            self._update_running(mean, variance * rows / (rows - 1))
        scaled = centred * (variance + self.eps).rsqrt()
        return (scaled * self.weight + self.bias).to(narrow)

    def _update_running(
        self, mean: Tensor, variance: Tensor, wanted: Tensor | None = None
    ) -> None:
        """Update the running statistics.

        Args:
            mean: Mean of the batch, [c].
            variance: Unbiased variance of the batch, [c].
            wanted: Whether to update at all, 0-dim bool on the device; None = yes.
        """
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
    """BatchNorm, ReLU, dropout: applied to a conv's output before the residual sum.

    Args:
        channels: Width of the rows.
        dropout: Dropout probability.
    """

    def __init__(self, channels: int, dropout: float = 0.0) -> None:
        super().__init__(BatchNorm(channels), nn.ReLU(), nn.Dropout(dropout))

    @operation
    def added_to(self, x: Tensor, out: Tensor) -> Tensor:
        """Return `x + self(out)`, [n, c]."""
        return x + self(out)


class _SumOverProcesses(torch.autograd.Function):
    """Sum a tensor over all processes; the gradient is summed in the same way."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        """Sum over processes."""
        total = value.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Sum the gradients: the value of each process is a term in every sum."""
        total = gradients[0].clone()
        dist.all_reduce(total)
        return total


def several_processes() -> bool:
    """Return whether more than one process trains the model (DDP)."""
    if not dist.is_available() or not dist.is_initialized():
        return False
    return dist.get_world_size() > 1

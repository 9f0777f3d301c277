"""BatchNorm over rows, of one process or of several that train together."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

_counts: Mapping[int, Tensor] = {}


@contextmanager
def real_rows(counts: Mapping[int, Tensor]) -> Iterator[None]:
    """Inside, norms in training are blind to the padding of a batch.

    Of an input with R rows, R a key of `counts`, the first `counts[R]` rows make the
    statistics; the padding behind them comes out as if it were their mean, and so
    never grows from layer to layer. Which rows are real is asked on the device alone.
    Batches are padded in runs of one process only: over several, all rows are real.

    Args:
        counts: From a number of rows to how many of them are real, each a 0-dim int64
            tensor on the device of the rows.

    >>> norm = BatchNorm(1)
    >>> with real_rows({3: torch.tensor(2)}):
    ...     rows = norm(torch.tensor([[-1.0], [1.0], [5.0]]))
    >>> [round(row, 3) for row in rows.flatten().tolist()]
    [-1.0, 1.0, 0.0]
    """
    global _counts
    before, _counts = _counts, counts
    try:
        yield
    finally:
        _counts = before


def current_real_rows() -> Mapping[int, Tensor]:
    """What the innermost `real_rows` was given; nothing outside of all."""
    return _counts


class BatchNorm(nn.BatchNorm1d):
    r"""$\gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta$ over the rows.

    A single row, as of a one-node graph, is no error: it has no deviation, so it is
    normed with the running statistics. Where several processes train together, the
    statistics are those of all their rows, on any device, so that the number of
    processes does not change the result; a process may then even have no row. Rows
    of padding are left out inside `real_rows`.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Norm rows [n, c]."""
        if not self.training:
            return super().forward(x)
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            return self._over_processes(x)
        if _counts and x.size(0) in _counts:
            return self._over_real_rows(x, _counts[x.size(0)])
        if x.size(0) > 1:
            return super().forward(x)
        return self._with_running_statistics(x)

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

"""Recompute the running statistics of batch norms before each evaluation.

In training, a batch norm normalises with the mean and variance of the batch. The
running statistics that it uses in evaluation are moving averages over the last steps,
in which the weights were different. If the variance of a channel is small, a small
change of its mean is many standard deviations. Then the network computes something
else in evaluation than in training.

Written by hand because `torch.optim.swa_utils.update_bn` stores the unbiased variance,
while training normalises with the biased variance. The two differ by a factor of
n / (n - 1), for example 15 / 14 in the head of a network with batches of 15 graphs.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
import torch.distributed as dist
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gnnak.backend import PLAIN, use_backend
from gnnak.loading.items import Item
from gnnak.nn.norm import several_processes
from gnnak.training.data import GraphData
from gnnak.training.module import GraphTask, batch_statistics


class Recalibrate(Callback):
    """Callback that calls `recalibrate` with all training graphs before validation.

    The new statistics are part of the weights of the epoch, so the test and
    checkpoints use them too.
    """

    def on_validation_epoch_start(
        self, trainer: Trainer, module: LightningModule
    ) -> None:
        """Recompute the running statistics (called by Lightning)."""
        assert isinstance(module, GraphTask)
        data = trainer.datamodule  # type: ignore[attr-defined]
        assert isinstance(data, GraphData)
        with trainer.precision_plugin.val_step_context():
            recalibrate(module.network, data.statistics_dataloader())


@torch.no_grad()
def recalibrate(network: nn.Module, batches: Iterable[Item]) -> None:
    r"""Replace running statistics of batch norms by statistics of the given batches.

    With $n_b$ rows, mean $\mu_b$ and biased variance $\sigma_b^2$ of a channel in
    batch $b$, the new running statistics are

    $$\mu = \sum_b n_b \mu_b / \sum_b n_b \qquad
      \sigma^2 = \sum_b n_b \sigma_b^2 / \sum_b n_b$$

    For a single batch, the network then computes the same in evaluation as with batch
    statistics. A batch norm that gets no batch of two rows or more does not change.

    Args:
        network: The network, in evaluation mode: without dropout, and with all rooted
            subgraphs.
        batches: The batches, for example all training graphs. In distributed training,
            each process has its own batches, and all processes must call this function
            together.
    """
    with _statistics(network) as sums, use_backend(PLAIN), batch_statistics(network):
        for item in batches:
            network(item.batch, subgraphs=item.subgraphs)
    for norm, total in sums.items():
        if several_processes():
            dist.all_reduce(total)
        rows, mean, variance = total
        if (rows > 0).all():
            assert norm.running_mean is not None
            assert norm.running_var is not None
            norm.running_mean.copy_(mean / rows)
            norm.running_var.copy_(variance / rows)


@contextmanager
def _statistics(network: nn.Module) -> Iterator[dict[_BatchNorm, Tensor]]:
    """Context manager: sum up the statistics of the inputs of all batch norms.

    Yields:
        For each batch norm with running statistics, a tensor [3, c] in float64: the
        number of rows, and the sums over batches of rows * mean and rows * variance.
    """
    sums: dict[_BatchNorm, Tensor] = {}
    with ExitStack() as hooks:
        for norm in network.modules():
            if isinstance(norm, _BatchNorm) and norm.running_mean is not None:
                sums[norm] = norm.running_mean.new_zeros(
                    3, norm.num_features, dtype=torch.double
                )
                hook = norm.register_forward_pre_hook(
                    lambda norm, inputs: _add(sums[norm], inputs[0])
                )
                hooks.callback(hook.remove)
        yield sums


def _add(total: Tensor, x: Tensor) -> None:
    """Add the number of rows, rows * mean and rows * biased variance to `total`.

    Args:
        total: The sums, [3, c]; changed in place.
        x: Input of a batch norm, [n, c]. A single row is ignored, since a batch norm
            does not normalise it with its own statistics.
    """
    rows = x.size(0)
    if rows > 1:
        variance, mean = torch.var_mean(x.double(), dim=0, correction=0)
        total += rows * torch.stack([torch.ones_like(mean), mean, variance])

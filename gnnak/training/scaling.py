"""Normalise regression targets in training, and undo it in predictions."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from gnnak.datasets.record import Dataset, DatasetInfo, Scaling


class Scaler(nn.Module):
    r"""Normalise targets, $(y - \mu) / \sigma$, and undo it, $\sigma z + \mu$.

    Args:
        scaling: Mean and standard deviation of each target.
    """

    mean: Tensor
    """[t]: the mean of each target."""
    deviation: Tensor
    """[t]: the standard deviation of each target."""

    def __init__(self, scaling: Scaling) -> None:
        super().__init__()
        mean, deviation = scaling.mean, scaling.deviation
        self.register_buffer("mean", torch.tensor(mean), persistent=False)
        self.register_buffer("deviation", torch.tensor(deviation), persistent=False)

    def normalise(self, targets: Tensor) -> Tensor:
        """Return the normalised targets, [rows, t]."""
        return (targets - self.mean) / self.deviation

    def restore(self, outputs: Tensor) -> Tensor:
        """Return outputs of the network, [rows, t], in the units of the targets."""
        return outputs * self.deviation + self.mean


def with_scaling(dataset: Dataset, train: Tensor) -> DatasetInfo:
    """Return the description of a data set, with the scaling of its targets.

    Only the user's own regression targets are normalised; gnnak's data sets are used as
    published.

    Args:
        dataset: The graphs with their targets.
        train: Indices of the training graphs, from which the scaling is computed.
    """
    info = dataset.info
    if not info.own_data or info.task != "regression":
        return info
    y = dataset.store.subset(train).y
    assert y is not None
    scaling = target_scaling(y.reshape(y.size(0), -1))
    return replace(info, scaling=scaling)


def target_scaling(y: Tensor) -> Scaling:
    """Return mean and standard deviation of each target; NaN entries are ignored.

    Args:
        y: The targets, [rows, t].

    >>> target_scaling(torch.tensor([[1.0, 5.0], [3.0, torch.nan]]))
    Scaling(mean=(2.0, 5.0), deviation=(1.0, 1.0))
    """
    wide = y.double()
    mean = wide.nanmean(dim=0).nan_to_num()
    variance = (wide - mean).square().nanmean(dim=0).nan_to_num()
    deviation = variance.sqrt()
    # A constant target has a deviation of 0, up to rounding.
    constant = deviation <= 1e-9 * mean.abs()
    deviation = torch.where(constant, 1.0, deviation)
    return Scaling(tuple(mean.tolist()), tuple(deviation.tolist()))

"""The learning rate of each epoch, as a function of the validation scores before it."""

import math
from collections.abc import Sequence

from gnnak.training.config.run_config import TrainConfig

THRESHOLD = 1e-4
"""A validation score counts as better than the best one before only if it is better by
this share of that one, as in PyTorch's `ReduceLROnPlateau`."""


def learning_rate(
    train: TrainConfig,
    epoch: int,
    scores: Sequence[float] = (),
    lower_is_better: bool = True,
) -> float:
    """Return the learning rate of an epoch.

    Args:
        train: The schedule (`train.schedule`) and its options.
        epoch: Number of finished epochs.
        scores: The validation scores of all finished epochs; only the schedule
            "plateau" uses them.
        lower_is_better: Whether a lower score is better.

    >>> halving = TrainConfig(step=2, learning_rate=8.0)
    >>> [learning_rate(halving, epoch) for epoch in range(5)]
    [8.0, 8.0, 4.0, 4.0, 2.0]
    """
    if train.schedule == "cosine":
        return train.learning_rate * (1 + math.cos(math.pi * epoch / train.epochs)) / 2
    halvings = epoch // train.step
    if train.schedule == "plateau":
        halvings = _plateaus(scores, train.patience, lower_is_better)
    return train.learning_rate * 0.5**halvings


def _plateaus(scores: Sequence[float], patience: int, lower_is_better: bool) -> int:
    """Count how often more than `patience` epochs brought no better score.

    After each such plateau, the count of epochs starts again at 0.
    """
    plateaus = waited = 0
    best = math.inf if lower_is_better else -math.inf
    for score in scores:
        if lower_is_better:
            better = score < best * (1 - THRESHOLD)
        else:
            better = score > best * (1 + THRESHOLD)
        best, waited = (score, 0) if better else (best, waited + 1)
        if waited > patience:
            plateaus, waited = plateaus + 1, 0
    return plateaus

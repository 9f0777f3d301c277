"""Cross-validation folds, by group or stratified by class."""

import numpy as np
import torch
from torch import Tensor

from gnnak.typing import check_count


def folds_by_group(group: Tensor, num_folds: int, seed: int = 0) -> Tensor:
    """Assign groups of graphs to folds at random; a group stays in one fold.

    Args:
        group: The index of the group that each graph belongs to, [g], from 0.
        num_folds: Number of folds, k.
        seed: Seed of the random assignment.

    Returns:
        A matrix [k, g], one row per fold: 1 for test graphs, 0 for training graphs.

    >>> folds_by_group(torch.tensor([0, 0, 1, 1]), 2).sum(dim=0)
    tensor([1, 1, 1, 1])
    """
    check_count("num_folds", num_folds, least=2)
    groups = int(group.max()) + 1 if group.numel() else 0
    order = np.random.default_rng([seed, 77]).permutation(groups)
    fold = torch.empty(groups, dtype=torch.long)
    fold[torch.from_numpy(order)] = torch.arange(groups) % num_folds
    return (fold[group] == torch.arange(num_folds)[:, None]).long()


def stratified_folds(y: Tensor, num_folds: int, seed: int = 0) -> Tensor:
    """Assign graphs to folds at random, with equal class proportions in each fold.

    Args:
        y: The class of each graph, [g].
        num_folds: Number of folds, k.
        seed: Seed of the random assignment.

    Returns:
        A matrix [k, g], one row per fold: 1 for test graphs, 0 for training graphs.

    >>> stratified_folds(torch.tensor([0, 1, 0, 1]), 2)[:, :2].sum(dim=0)
    tensor([1, 1])
    """
    check_count("num_folds", num_folds, least=2)
    order = torch.from_numpy(np.random.default_rng([seed, 78]).permutation(y.numel()))
    order = order[torch.argsort(y[order], stable=True)]
    fold = torch.empty_like(y)
    fold[order] = torch.arange(y.numel()) % num_folds
    return (fold == torch.arange(num_folds)[:, None]).long()

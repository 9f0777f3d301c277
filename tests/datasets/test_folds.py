import pytest
import torch

from gnnak.datasets.benchmarks import folds_by_group, stratified_folds
from gnnak.errors import OptionError


def test_folds_by_group_test_every_graph_once_and_keep_groups_together():
    group = torch.arange(40) // 2
    folds = folds_by_group(group, 10, seed=1)
    assert folds.sum(dim=0).tolist() == [1] * 40
    assert folds.sum(dim=1).tolist() == [4] * 10
    assert torch.equal(folds[:, 0::2], folds[:, 1::2])
    assert not torch.equal(folds, folds_by_group(group, 10, seed=2))


def test_stratified_folds_have_their_share_of_every_class():
    y = torch.arange(10).repeat_interleave(15)
    folds = stratified_folds(y, 5)
    assert folds.sum(dim=0).tolist() == [1] * 150
    for fold in folds:
        assert y[fold == 1].bincount().tolist() == [3] * 10


def test_folds_are_at_least_two():
    with pytest.raises(OptionError, match="num_folds is 1"):
        folds_by_group(torch.zeros(3, dtype=torch.long), 1)

import pytest
import torch
from torch import nn

from gnnak.nn.norm import BatchNorm


@pytest.mark.parametrize("num_rows", [0, 1])
def test_batch_norm_trains_on_no_row_and_on_one(num_rows):
    norm = BatchNorm(3).train()
    x = torch.ones(num_rows, 3)
    torch.testing.assert_close(norm(x), x / (1 + 1e-5) ** 0.5)
    assert torch.equal(norm.running_mean, torch.zeros(3))


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_is_pytorchs_on_several_rows(training):
    ours, theirs = BatchNorm(3).train(training), nn.BatchNorm1d(3).train(training)
    x = torch.randn(5, 3)
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours.running_var, theirs.running_var)

"""The fused batch norm against `BatchNorm`."""

import pytest
import torch

from gnnak.fast.layers.norm import norm_rows
from gnnak.fast.layers.parts import can_fuse_norm
from gnnak.nn.norm import BatchNorm, RealRows, real_rows

EXACT = {"rtol": 1e-9, "atol": 1e-9}


@pytest.mark.parametrize("real", [0, 1, 2, 4])
def test_fused_norm_uses_the_statistics_of_real_rows(real):
    """With fewer than two real rows, the running statistics are used."""
    x, weights = torch.randn(2, 4, 3, dtype=torch.double)
    weights[real:] = 0
    results = []
    for fused in (False, True):
        norm = BatchNorm(3).double()
        norm.running_mean += torch.arange(3)
        rows = x.clone().requires_grad_()
        with real_rows(RealRows(nodes=torch.tensor(real))):
            out = norm_rows(norm, rows) if fused else norm(rows)
        (out * weights).sum().backward()
        gradients = [rows.grad, norm.weight.grad, norm.bias.grad]
        results.append([out[:real], *gradients, *norm.buffers()])
    torch.testing.assert_close(*results, **EXACT)


def test_norm_is_not_fused_on_strided_rows_or_with_other_options():
    norm, rows = BatchNorm(4), torch.rand(8, 4)
    assert can_fuse_norm(norm, rows)
    one_row = rows[:1]
    for other in (torch.rand(4, 8).t(), torch.rand(8, 8)[:, ::2], one_row):
        assert not can_fuse_norm(norm, other)
    for plain in (BatchNorm(4, affine=False), BatchNorm(4, momentum=None)):
        assert not can_fuse_norm(plain, rows)


def test_gradient_of_fused_norm_ignores_later_updates_of_running_statistics():
    gradients = []
    for trains in (False, True):
        torch.manual_seed(0)
        norm = BatchNorm(3).double().eval()
        out = norm_rows(norm, torch.randn(4, 3, dtype=torch.double))
        if trains:
            norm.train()
            norm(5 + torch.randn(4, 3, dtype=torch.double))
        (out * torch.arange(12).view(4, 3)).sum().backward()
        gradients.append(norm.weight.grad)
    torch.testing.assert_close(*gradients, **EXACT)

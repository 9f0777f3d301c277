import torch
from torch import nn

from gnnak.nn.mlp import dense_block, mlp


def test_mlp_has_dense_blocks_and_ends_in_a_bare_linear():
    net = mlp([2, 3, 4, 5])
    shapes = [list(p.shape) for p in net.parameters() if p.dim() == 2]
    assert shapes == [[3, 2], [4, 3], [5, 4]]
    assert [block[0].bias for block in net[:-1]] == [None, None]
    assert isinstance(net[-1], nn.Linear)
    assert net[-1].bias is not None


def test_mlp_without_bias_has_none():
    assert [p.shape for p in mlp([2, 3], bias=False).parameters()] == [(3, 2)]


def test_dense_block_is_linear_norm_relu():
    block = dense_block(2, 3).double()
    x = torch.tensor([[1.0, 2.0], [0.0, -1.0], [3.0, 1.0]], dtype=torch.double)
    mapped = x @ block[0].weight.t()
    spread = (mapped.var(dim=0, unbiased=False) + 1e-5).sqrt()
    wanted = torch.relu((mapped - mapped.mean(dim=0)) / spread)
    torch.testing.assert_close(block(x), wanted, rtol=1e-10, atol=1e-10)

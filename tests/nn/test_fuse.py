import pytest
import torch

from gnnak.nn.encodings import ConcatFuse, SumFuse

ONE = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.double)
TWO = torch.tensor([[10.0, 20.0], [30.0, 50.0]], dtype=torch.double)


def test_sum_fuse_adds():
    assert SumFuse()([ONE, TWO]).tolist() == [[11, 22], [33, 54]]
    assert SumFuse()((ONE,)).tolist() == ONE.tolist()


def test_concat_fuse_is_one_linear_of_the_concatenation():
    fuse = ConcatFuse(num_encodings=2, channels=2, num_layers=1, dropout=0.0).double()
    (weight,) = fuse.parameters()
    left, right = weight.split(2, dim=1)
    wanted = ONE @ left.t() + TWO @ right.t()
    torch.testing.assert_close(fuse([ONE, TWO]), wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_hidden_layers_of_concat_fuse_are_as_wide_as_the_concatenation(num_layers):
    fuse = ConcatFuse(3, 2, num_layers, dropout=0.0)
    shapes = [list(p.shape) for p in fuse.parameters() if p.dim() == 2]
    assert shapes == [[6, 6]] * (num_layers - 1) + [[2, 6]]
    assert isinstance(fuse.mlp[-1], torch.nn.Linear)
    assert fuse.mlp[-1].bias is None


def test_concat_fuse_drops_out_the_concatenation_in_training_only():
    fuse = ConcatFuse(2, 2, 1, dropout=0.999999).double()
    assert torch.equal(fuse([ONE, TWO]), torch.zeros_like(ONE))
    assert fuse.eval()([ONE, TWO]).abs().sum() > 0

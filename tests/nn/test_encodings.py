import pytest
import torch

from gnnak.nn.encodings import ConcatFuse, HopGate, HopTable, SumFuse
from gnnak.subgraphs import RootedSubgraphs


def with_hops(hop):
    none = torch.zeros(2, 0, dtype=torch.long)
    return RootedSubgraphs(none[0], none[0], none[0], hop, none, none[0])


def test_hop_table_has_a_row_per_hop_and_one_for_not_reached():
    """The published code has tables of 20 rows and crashes for larger distances."""
    table = HopTable(max_hops=30, channels=4)
    assert table.weight.shape == (32, 4)
    hops = torch.tensor([0, 1, 30, -1])
    assert table.rows(with_hops(hops)).tolist() == [0, 1, 30, 31]
    assert repr(table) == "HopTable(max_hops=30, channels=4)"


def test_hop_table_without_hops_has_the_root_and_not_reached():
    assert HopTable(0, 4).rows(with_hops(torch.tensor([0, -1]))).tolist() == [0, 1]


def test_hop_gate_is_the_sigmoid_of_a_linear():
    table, gate = HopTable(2, 3).double(), HopGate(3, 5).double()
    linear = table.weight @ gate.linear.weight.t() + gate.linear.bias
    wanted = 1 / (1 + torch.exp(-linear))
    got = gate(table.weight)
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)
    assert got.shape == (4, 5)


def test_reset_parameters_changes_all_weights():
    table, gate = HopTable(2, 3), HopGate(3, 5)
    before = [p.clone() for p in [*table.parameters(), *gate.parameters()]]
    table.reset_parameters()
    gate.reset_parameters()
    after = [*table.parameters(), *gate.parameters()]
    assert not any(map(torch.equal, before, after))


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

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.nn import GATConv, GCNConv, GINEConv, SAGEConv

from gnnak.errors import EdgeAttrError, OptionError, WidthError
from gnnak.nn import PPGN, Stack
from gnnak.nn.calling import try_out
from gnnak.testing import small_graphs

PATH = small_graphs(channels=4, edge_channels=4)["path"]


class WantsBatch(nn.Module):
    """Return the index of each node's graph as its state."""

    def forward(self, x, edge_index, batch=None):
        return x * 0 + batch[:, None]


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_stack_equals_its_equation(training):
    stack = Stack([SAGEConv(4, 4), SAGEConv(4, 4)], channels=4).double()
    stack.train(training)
    wanted = PATH.x
    for conv, norm in zip(stack.convs, stack.norms, strict=True):
        out = conv(wanted, PATH.edge_index)
        mean, variance = norm.running_mean, norm.running_var
        if training:
            mean, variance = out.mean(dim=0), out.var(dim=0, unbiased=False)
        wanted = wanted + torch.relu((out - mean) / (variance + 1e-5).sqrt())
    got = stack(PATH.x, PATH.edge_index)
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


def test_stack_drops_entries_of_the_branch_and_keeps_the_residual():
    stack = Stack([SAGEConv(4, 4)], channels=4, dropout=0.999999).double()
    assert torch.equal(stack(PATH.x, PATH.edge_index), PATH.x)
    assert not torch.equal(stack.eval()(PATH.x, PATH.edge_index), PATH.x)


def test_stack_passes_batch_to_convs_that_take_it():
    stack = Stack([WantsBatch(), SAGEConv(4, 4)], channels=4).double().eval()
    stack.convs[1] = WantsBatch()
    stack.callings[1] = stack.callings[0]
    data = Batch.from_data_list([PATH, PATH])
    got = stack(data.x, data.edge_index, batch=data.batch)
    scale = 1 / (1 + 1e-5) ** 0.5
    torch.testing.assert_close(got, data.x + 2 * scale * data.batch[:, None])


def test_stack_mixes_those_that_want_batch_with_those_that_do_not():
    stack = Stack([PPGN(4, 1), GATConv(4, 4, edge_dim=4)], channels=4).double()
    data = Batch.from_data_list([PATH, PATH])
    out = stack(data.x, data.edge_index, data.edge_attr, batch=data.batch)
    assert out.shape == (6, 4)


def test_stack_gives_all_convs_the_same_edge_attributes():
    stack = Stack([GINEConv(nn.Linear(4, 4)) for _ in range(2)], channels=4).double()
    edge_attr = PATH.edge_attr.clone().requires_grad_()
    out = stack.eval()(PATH.x, PATH.edge_index, edge_attr)
    assert torch.autograd.grad(out.sum(), edge_attr)[0].abs().sum() > 0
    with_zeros = stack(PATH.x, PATH.edge_index, torch.zeros_like(edge_attr))
    assert not torch.allclose(out, with_zeros)


def test_stack_takes_weights_where_its_convs_do():
    stack = Stack([GCNConv(4, 4)], channels=4).double().eval()
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.double)
    out = stack.norms[0](stack.convs[0](PATH.x, PATH.edge_index, weight))
    wanted = PATH.x + torch.relu(out)
    got = stack(PATH.x, PATH.edge_index, edge_weight=weight)
    torch.testing.assert_close(got, wanted)
    assert try_out(stack, 4, "four").edge_arguments == ("edge_weight",)


def test_stack_refuses_attributes_and_weights_at_once():
    stack = Stack([GCNConv(4, 4)], channels=4).double()
    with pytest.raises(OptionError, match="give only one of them"):
        stack(PATH.x, PATH.edge_index, PATH.edge_attr, torch.ones(4))


def test_stack_does_not_drop_edge_attributes():
    """Fault of the published code: edge attributes dropped silently."""
    stack = Stack([SAGEConv(4, 4)], channels=4).double()
    with pytest.raises(EdgeAttrError, match="SAGEConv does not read edge attributes"):
        stack(PATH.x, PATH.edge_index, PATH.edge_attr)
    assert try_out(stack, 4, "four").edge_arguments == ()


def test_stack_answers_wrong_widths_with_the_number_to_use():
    with pytest.raises(WidthError, match=r"takes width 5, but gets 4 .* with 4 input"):
        Stack([SAGEConv(4, 4), SAGEConv(5, 4)], channels=4)
    with pytest.raises(WidthError, match=r"returns states of width 5.* with 4 output"):
        Stack([SAGEConv(4, 4), SAGEConv(4, 5)], channels=4)


def test_stack_of_nothing_is_an_error():
    with pytest.raises(OptionError, match="give at least one"):
        Stack([], channels=4)

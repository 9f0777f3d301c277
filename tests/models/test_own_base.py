import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv, SAGEConv

from gnnak.errors import OptionError
from gnnak.models import ModelOptions, build_model
from gnnak.models.bases import find_class, make_own
from gnnak.models.factory import parse_name
from gnnak.nn.features import Categorical


class OneWidth(nn.Module):
    """A base GNN that takes the number of channels only."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = SAGEConv(channels, channels)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


@pytest.mark.parametrize("suffix", ["", "-ak", "-ak+", "-ak+-s"])
def test_build_model_with_a_class_of_the_user(suffix):
    name = f"{__name__}:OneWidth{suffix}"
    assert parse_name(name).base == f"{__name__}:OneWidth"
    options = ModelOptions(num_layers=1, channels=8)
    network = build_model(name, Categorical((3,)), None, 2, options)
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    out = network(torch.tensor([[0], [1], [2]]), edge_index)
    assert out.shape == (1, 2)


@pytest.mark.parametrize(
    "conv", [f"{__name__}:OneWidth", "torch_geometric.nn:GATv2Conv"]
)
@pytest.mark.parametrize("member", ["ego", "id", "id-fast", "nested", "sun", "sswl+"])
def test_subgraph_gnns_take_a_class_of_the_user(member, conv):
    form = parse_name(f"{member}-{conv}")
    assert (form.member, form.base) == (member, conv)
    options = ModelOptions(num_layers=2, channels=8)
    given = (Categorical((3,)), Categorical((2,)), 2, options)
    network = build_model(f"{member}-{conv}", *given)
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    x, bonds = torch.tensor([[0], [1], [2]]), torch.tensor([[0], [0], [1], [1]])
    network(x, edge_index, bonds).sum().backward()
    assert all(weight.grad is not None for weight in network.parameters())


def test_khop_takes_no_class_of_the_user():
    with pytest.raises(OptionError, match=r"khop cannot use the base GNN .*: gin"):
        parse_name("khop-torch_geometric.nn:SAGEConv")


def test_make_own_gives_widths_and_edge_widths_to_convs_of_pyg():
    conv = make_own("torch_geometric.nn:GATConv", 6)
    assert isinstance(conv, GATConv)
    assert (conv.in_channels, conv.out_channels, conv.edge_dim) == (6, 6, 6)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("antigravity:Layer", "--import antigravity"),
        ("os:system", "not a class of PyTorch modules"),
        ("torch_geometric.nn:Nothing", "not a class of PyTorch modules"),
    ],
)
def test_find_class_imports_nothing_and_takes_modules_only(name, message):
    with pytest.raises(OptionError, match=message):
        find_class(name)


@pytest.mark.parametrize("name", ["a:b:c", "a b:C", ":C", "a:", "a.:C", "a:C-akk"])
def test_parse_name_refuses_other_names_with_a_colon(name):
    with pytest.raises(OptionError, match="unknown model"):
        parse_name(name)


def test_make_own_says_how_a_class_must_be_built():
    with pytest.raises(OptionError, match="takes the number of channels"):
        make_own("torch_geometric.nn:GINEConv", 4)

import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv, SAGEConv

from gnnak import EgoNets, RandomWalks
from gnnak.errors import OptionError
from gnnak.models import ModelOptions, build_model, model_names
from gnnak.models.bases import find_class, make_own
from gnnak.models.factory import parse_name
from gnnak.nn import GNNAK, PPGN, Categorical, Continuous
from gnnak.training.config.experiment import load_experiment
from tests.models.zoo import (
    ATOMS,
    BONDS,
    FAMILY,
    UPLIFTED,
    molecule_batch,
    small_network,
)

ZINC_ATOMS, ZINC_BONDS = Categorical((28,)), Categorical((4,))


def count(net):
    return sum(p.numel() for p in net.parameters())


def assert_trains(net, data, num_rows):
    """Forward and backward; every parameter gets a finite gradient."""
    out = net.train()(data)
    assert out.shape == (num_rows, 3)
    out.square().sum().backward()
    missing = [name for name, p in net.named_parameters() if p.grad is None]
    assert missing == []
    assert all(p.grad.isfinite().all() for p in net.parameters())


def test_model_names_are_all_bases_in_all_forms():
    names = model_names()
    assert len(names) == len(set(names)) == 108
    assert {"khop-gin", "ego-gcn", "id-ppgn", "sswl+-pna*", "id-fast-gat"} <= set(names)
    assert {name for name in names if "l2fgnn" in name} == {"l2fgnn-gin"}
    assert not {"khop-gcn", "dss-ppgn", "sswl+-ppgn"} & set(names)
    assert {"gin", "gin-ak", "gin-ak+", "pna*-ak+", "ppgn", "ppgn-ak+"} <= set(names)


@pytest.mark.parametrize("with_edges", [True, False], ids=["edges", "no edges"])
@pytest.mark.parametrize("name", UPLIFTED + FAMILY)
def test_build_model_gives_every_parameter_a_gradient(name, with_edges):
    """Fault of the published code: unused modules, most of the parameter count."""
    net = small_network(name, BONDS if with_edges else None)
    data = molecule_batch(with_edges)
    assert_trains(net, data, data.num_graphs)


@pytest.mark.parametrize("name", ["gin", "gin-ak+", "gcn-ak", "pna*-ak+", "ppgn-ak+"])
def test_build_model_makes_node_models_with_a_plain_conv(name):
    data = molecule_batch()
    net = small_network(name, node_task=True, plain_conv=True)
    assert_trains(net, data, data.num_nodes)


@pytest.mark.parametrize(
    "options",
    [
        {"encodings": ("centroid", "context"), "fuse": "sum", "reduce": "mean"},
        {"encodings": ("subgraph",), "reduce": "mean", "dropout": 0.5},
        {"base_layers": 2},
        {"mlp_layers": 0, "gate_centroid": False},
        {"mlp_layers": 2, "gate_centroid": True},
        {"subgraphs": RandomWalks(3, 2)},
        {"subgraphs": EgoNets(0)},
        {"hop_channels": 0},
    ],
    ids=str,
)
def test_build_model_leaves_no_parameter_unused_under_any_option(options):
    """Fault of the published code: unused modules, most of the parameter count."""
    data = molecule_batch()
    assert_trains(small_network("gin-ak+", **options), data, data.num_graphs)


@pytest.mark.parametrize("name", ["gin-ak+", "ppgn-ak", "gat"])
def test_build_model_passes_dropout_on_to_every_part(name):
    net = small_network(name, dropout=0.25)
    shares = {key: p.p for key, p in net.named_modules() if isinstance(p, nn.Dropout)}
    assert set(shares.values()) == {0.25}
    parts = ["head", "after"] + ["fuse"] * ("-ak" in name)
    for part in parts + ["gnn.gnn.after"] * (name == "gin-ak+"):
        assert any(part in key for key in shares), part


@pytest.mark.parametrize(
    ("name", "wanted", "share"),
    [
        ("gin-ak+", 0.92e6, 0.015),
        ("gin", 0.22e6, 0.02),
        ("gcn-ak+", 0.79e6, 0.015),
        ("pna*-ak+", 7.6e6, 0.03),
    ],
)
def test_build_model_has_the_published_number_of_zinc_weights(name, wanted, share):
    net = build_model(name, ZINC_ATOMS, ZINC_BONDS, 1)
    assert count(net) == pytest.approx(wanted, rel=share)


@pytest.mark.parametrize(
    ("experiment", "nodes", "out_channels", "wanted"),
    [
        ("cifar10", Continuous(5), 10, 1.35e6),
        ("pattern", Categorical((2, 2, 2)), 2, 2.21e6),
    ],
)
def test_build_model_has_the_published_number_of_weights(
    experiment, nodes, out_channels, wanted
):
    options = load_experiment(experiment).config.model
    net = build_model("gin-ak+", nodes, None, out_channels, options)
    assert count(net) == pytest.approx(wanted, rel=0.005)


def test_build_model_of_zinc_has_the_number_of_weights_done_by_hand():
    d, h, hops = 128, 16, 3
    w = d + h
    table = (hops + 2) * h
    gine = w * w + 2 * w + (w * w + w) + 1
    base = 4 * w + gine + 2 * w + (w * d + d)
    transforms = 2 * (d * d + 2 * d)
    gates = 3 * (h * d + d)
    fuse = 3 * d * d
    layer = table + base + transforms + gates + fuse + 2 * d
    head = d * d + 2 * d + d + 1
    net = build_model("gin-ak+", ZINC_ATOMS, ZINC_BONDS, 1)
    assert count(net) == 28 * d + 6 * layer + head


def test_build_model_makes_the_form_that_the_name_says():
    def layer(name):
        return small_network(name).layers[0].kernels[0].gnn

    assert not isinstance(layer("gin"), GNNAK)
    ak, plus = layer("gin-ak"), layer("gin-ak+")
    assert ak.encodings == ("centroid", "subgraph")
    assert ak.options.hop_channels == 0
    assert plus.encodings == ("centroid", "subgraph", "context")
    assert plus.options.hop_channels == 4


def test_build_model_makes_plain_ppgn_one_outer_layer_of_depth_l():
    net = small_network("ppgn", num_layers=3)
    (layer,) = net.layers
    (kernel,) = layer.kernels
    assert isinstance(kernel.gnn, PPGN)
    assert len(kernel.gnn.blocks) == 3


@pytest.mark.parametrize("name", ["gim", "gin-ak++", "GIN", "", "-ak"])
def test_build_model_answers_an_unknown_name_with_the_known_ones(name):
    wanted = (
        r"unknown model .*[uU]se one of gin, gcn, .*ppgn or your own "
        r"package\.module:Class, alone or with the suffix -ak"
    )
    with pytest.raises(OptionError, match=wanted):
        build_model(name, ATOMS, BONDS, 1)


@pytest.mark.parametrize(
    ("name", "nodes", "outputs", "degrees", "wanted"),
    [
        ("pna", ATOMS, 1, None, "needs degrees"),
        ("pna", ATOMS, 1, torch.ones(3), "degrees is a Tensor; give a tuple"),
        ("gin", None, 1, None, r"node_features is .*Categorical\(\(1,\)\)"),
        ("gin", 28, 1, None, r"node_features is .*Categorical\(\(1,\)\)"),
        ("gin", ATOMS, 0, None, "out_channels is 0"),
    ],
)
def test_build_model_answers_what_is_missing(name, nodes, outputs, degrees, wanted):
    with pytest.raises(OptionError, match=wanted):
        build_model(name, nodes, BONDS, outputs, degrees=degrees)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"num_layers": 0}, "num_layers is 0"),
        ({"base_layers": 0}, "base_layers is 0"),
        ({"channels": 0}, "channels is 0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"encodings": ("centre",)}, "'centre'; use one of: centroid, subgraph"),
    ],
)
def test_model_options_answer_a_wrong_value_in_a_sentence(options, wanted):
    with pytest.raises(OptionError, match=wanted):
        ModelOptions(**options)


def test_model_options_can_be_compared_and_be_a_key():
    one, two = ModelOptions(channels=64), ModelOptions(channels=64)
    assert one == two
    assert len({one, two}) == 1


def test_build_model_leaves_the_random_state_to_the_weights():
    one, two = (small_network("gin-ak+", seed=0) for _ in range(2))
    assert all(map(torch.equal, one.parameters(), two.parameters()))


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


@pytest.mark.parametrize(
    ("name", "options"), [(None, None), ("gin", {"channels": 8}), (EgoNets, None)]
)
def test_build_model_names_arguments_of_a_wrong_type(name, options):
    with pytest.raises(OptionError, match="give a text such as gin-ak\\+, and ModelOp"):
        build_model(name, Categorical((2,)), None, 1, options)

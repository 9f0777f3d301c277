import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.nn.models.attentive_fp import GATEConv
from torch_geometric.nn.models.schnet import CFConv

from gnnak import GNNAK, EgoNets
from gnnak.errors import EdgeAttrError, GraphError, OptionError, WidthError
from gnnak.nn import Stack
from gnnak.nn.calling import own_widths, try_out
from gnnak.testing import small_graphs
from tests.nn.users_convs import ConcatConv, ScalarConv, users_convs

PATH = small_graphs(channels=8, edge_channels=3)["path"]
HISTOGRAM = {
    "aggregators": ["mean", "std"],
    "scalers": ["identity"],
    "deg": torch.tensor([1, 4, 2]),
}

ATTR, WEIGHT = ("edge_attr",), ("edge_weight",)


def sequential():
    conv = pyg.GATConv(8, 5, edge_dim=3), "x, edge_index, edge_attr -> x"
    return pyg.Sequential(conv[1][:-5], [conv, nn.ReLU(), nn.Linear(5, 7)])


def gps(conv):
    return pyg.GPSConv(8, conv, heads=2)


def gine(width):
    return pyg.GINEConv(nn.Linear(8, width), edge_dim=3)


# name: (GNN, width of its states, the edge arguments it reads)
GNNS = {
    "GCNConv": (lambda: pyg.GCNConv(8, 5), 5, WEIGHT),
    "SAGEConv": (lambda: pyg.SAGEConv(8, 5), 5, ()),
    "GraphConv": (lambda: pyg.GraphConv(8, 5), 5, WEIGHT),
    "GATConv": (lambda: pyg.GATConv(8, 5, heads=3), 15, ()),
    "GATConv, mean": (lambda: pyg.GATConv(8, 5, heads=3, concat=False), 5, ()),
    "GATConv with edges": (lambda: pyg.GATConv(8, 5, edge_dim=3), 5, ATTR),
    "GATv2Conv": (lambda: pyg.GATv2Conv(8, 5, heads=2, edge_dim=3), 10, ATTR),
    "Transformer": (lambda: pyg.TransformerConv(8, 5, heads=2, edge_dim=3), 10, ATTR),
    "GINConv": (lambda: pyg.GINConv(nn.Linear(8, 5)), 5, ()),
    "GINEConv": (lambda: pyg.GINEConv(nn.Linear(8, 5)), 5, ATTR),
    "GINEConv with edges": (lambda: gine(5), 5, ATTR),
    "PNAConv": (lambda: pyg.PNAConv(8, 5, **HISTOGRAM, edge_dim=3), 5, ATTR),
    "ChebConv": (lambda: pyg.ChebConv(8, 5, K=2), 5, WEIGHT),
    "TAGConv": (lambda: pyg.TAGConv(8, 5), 5, WEIGHT),
    "SGConv": (lambda: pyg.SGConv(8, 5), 5, WEIGHT),
    "ARMAConv": (lambda: pyg.ARMAConv(8, 5), 5, WEIGHT),
    "LEConv": (lambda: pyg.LEConv(8, 5), 5, WEIGHT),
    "EdgeConv": (lambda: pyg.EdgeConv(nn.Linear(16, 5)), 5, ()),
    "GENConv": (lambda: pyg.GENConv(8, 5, edge_dim=3), 5, ATTR),
    "ResGatedGraphConv": (lambda: pyg.ResGatedGraphConv(8, 5, edge_dim=3), 5, ATTR),
    "NNConv": (lambda: pyg.NNConv(8, 5, nn.Linear(3, 40)), 5, ATTR),
    "CGConv": (lambda: pyg.CGConv(8, dim=3), 8, ATTR),
    "GIN": (lambda: pyg.GIN(8, 6, 2, 5), 5, ()),
    "GCN": (lambda: pyg.GCN(8, 6, 2, 5), 5, WEIGHT),
    "GAT": (lambda: pyg.GAT(8, 6, 2, 5, edge_dim=3), 5, ATTR),
    "GraphSAGE": (lambda: pyg.GraphSAGE(8, 6, 2), 6, ()),
    "PNA": (lambda: pyg.PNA(8, 6, 2, **HISTOGRAM), 6, ATTR),
    "EdgeCNN": (lambda: pyg.EdgeCNN(8, 6, 2), 6, ()),
    "LSTM": (lambda: pyg.GraphSAGE(8, 6, 2, aggr="lstm"), 6, ()),
    "GPSConv": (lambda: gps(gine(8)), 8, ATTR),
    "GPSConv with weights": (lambda: gps(pyg.GCNConv(8, 8)), 8, WEIGHT),
    "GPSConv without edges": (lambda: gps(pyg.SAGEConv(8, 8)), 8, ()),
    "DeepGCNLayer": (
        lambda: pyg.DeepGCNLayer(pyg.GENConv(8, 8, edge_dim=3), nn.LayerNorm(8)),
        8,
        ATTR,
    ),
    "Sequential": (sequential, 7, ATTR),
}


@pytest.mark.parametrize("name", GNNS)
def test_try_out_finds_width_and_edge_arguments(name):
    make, width, edge_arguments = GNNS[name]
    calling = try_out(make(), 8, "eight")
    assert calling.out_channels == width
    assert calling.edge_arguments == edge_arguments


@pytest.mark.parametrize("name", users_convs())
def test_calling_equals_a_direct_call_of_a_users_conv(name):
    """Integer and real edge attributes, [e] and [e, c], are passed unchanged."""
    conv, edge_attr = users_convs()[name]
    calling = try_out(conv, 8, "eight")
    assert calling.edge_arguments == ("edge_attr",)
    assert calling.needs_edges
    x = PATH.x.float()
    got = calling(conv, x, PATH.edge_index, edge_attr, None)
    assert torch.equal(got, conv(x, PATH.edge_index, edge_attr))


def test_try_out_finds_convs_that_need_edge_attributes():
    for gnn in (pyg.GCNConv(8, 8), pyg.GATConv(8, 8, edge_dim=3), pyg.GIN(8, 6, 2)):
        assert not try_out(gnn, 8, "eight").needs_edges
    for gnn in (gine(8), gps(gine(8)), Stack([gine(8)], 8)):
        assert try_out(gnn, 8, "eight").needs_edges


def test_try_out_finds_gnns_that_take_batch():
    assert try_out(pyg.GIN(8, 6, 2), 8, "eight").takes_batch
    assert not try_out(pyg.GCNConv(8, 6), 8, "eight").takes_batch
    batched = [(pyg.GCNConv(8, 5), "x, edge_index -> x")]
    sequence = pyg.Sequential("x, edge_index, batch", batched)
    assert try_out(sequence, 8, "eight").takes_batch


def test_try_out_changes_nothing():
    gnn = nn.ModuleList([pyg.GIN(8, 6, 3, 5, norm="batch_norm", dropout=0.5)])[0]
    gnn.convs[1].eval()
    state = copy.deepcopy(gnn.state_dict())
    modes = [part.training for part in gnn.modules()]
    random_state = torch.get_rng_state()
    try_out(gnn, 8, "eight")
    assert all(torch.equal(state[name], v) for name, v in gnn.state_dict().items())
    assert [part.training for part in gnn.modules()] == modes
    assert True in modes
    assert False in modes
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(p.grad is None for p in gnn.parameters())


class Random(nn.Module):
    """Uses random numbers in evaluation mode, too; fails unless the width is 8."""

    def forward(self, x, edge_index):
        return nn.functional.dropout(x.view(-1, 8)[: x.size(0)], 0.5)


def test_try_out_restores_random_state_and_mode_after_a_failure():
    gnn, random_state = Random(), torch.get_rng_state()
    try_out(gnn, 8, "eight")
    assert torch.equal(torch.get_rng_state(), random_state)
    with pytest.raises(WidthError):
        try_out(gnn, 9, "nine")
    assert gnn.training
    assert torch.equal(torch.get_rng_state(), random_state)


@pytest.mark.parametrize("dtype", [torch.float, torch.double, torch.bfloat16])
def test_try_out_uses_the_dtype_of_the_weights(dtype):
    assert try_out(pyg.SAGEConv(8, 5).to(dtype), 8, "eight").out_channels == 5


@pytest.mark.parametrize(
    "gnn",
    [
        pyg.GCNConv(7, 5),
        pyg.GATConv(7, 5, heads=2),
        pyg.GINEConv(nn.Linear(7, 5)),
        pyg.GIN(7, 5, 2),
        pyg.SAGEConv((7, 7), 5),
        pyg.EdgeConv(nn.Linear(14, 5)),
        pyg.GPSConv(7, pyg.GINEConv(nn.Linear(7, 7), edge_dim=3)),
    ],
    ids=lambda gnn: type(gnn).__name__,
)
def test_try_out_error_for_a_wrong_width_names_the_right_one(gnn):
    wanted = r"takes width 7, but gets 8 \(4 \+ 4\); build it with 8 input channels"
    with pytest.raises(WidthError, match=wanted):
        try_out(gnn, 8, "4 + 4")


class Returns(nn.Module):
    """Return `function(x)`; the widths of its Linear are misleading."""

    def __init__(self, function):
        super().__init__()
        self.linear = nn.Linear(3, 5)
        self.function = function

    def forward(self, x, edge_index, edge_attr=None):
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: (None, x), "it returns a tuple, not states"),
        (lambda x: None, "it returns None, not states"),
        (lambda x: x.sum(dim=0), r"it returns a tensor of shape \[8\], not states"),
        (lambda x: x[:1], r"it returns a tensor of shape \[1, 8\], not states"),
        (lambda x: 1 / 0, "division by zero"),
    ],
)
def test_try_out_error_names_a_wrong_output(function, wanted):
    with pytest.raises(WidthError, match=wanted) as caught:
        try_out(Returns(function), 8, "eight")
    assert "\n" not in str(caught.value)
    assert "build it with" not in str(caught.value)


@pytest.mark.parametrize(
    ("gnn", "further", "width"),
    [
        (pyg.RGCNConv(8, 5, num_relations=2), ("edge_type",), 5),
        (pyg.GCN2Conv(8, alpha=0.1), ("x_0",), 8),
        (pyg.PointTransformerConv(8, 5), ("pos",), 5),
        (pyg.HEATConv(8, 5, 2, 3, 4, 2, 4), ("node_type", "edge_type"), 5),
        (CFConv(8, 5, 6, nn.Linear(4, 6), 3.0), ("edge_weight",), 5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_try_out_finds_further_arguments_by_their_names(gnn, further, width):
    calling = try_out(gnn, 8, "eight")
    assert (calling.further, calling.out_channels) == (further, width)
    with pytest.raises(GraphError, match=f"needs {further[0]}"):
        calling(gnn, PATH.x.float(), PATH.edge_index, None, None)


def test_try_out_accepts_a_tuple_whose_first_item_are_states():
    gnn = Returns(lambda x: (x, "more"))
    calling = try_out(gnn, 8, "eight")
    assert calling.returns_tuple
    assert torch.equal(calling(gnn, PATH.x, PATH.edge_index, None, None), PATH.x)


class Unknown(nn.Module):
    def forward(self, x, edge_index, what):
        return x * what


def test_try_out_error_names_unknown_arguments():
    with pytest.raises(WidthError, match=r"Unknown needs what .* gnnak.nn.Call"):
        try_out(Unknown(), 8, "eight")


@pytest.mark.parametrize(
    ("gnn", "wanted"),
    [
        (None, "the base GNN is None; give a built PyTorch module"),
        ("GIN", "the base GNN is 'GIN'; give a built PyTorch module"),
        (pyg.GCNConv, r"GCNConv is a class; build it first: GCNConv\(...\)\."),
    ],
)
def test_try_out_rejects_other_objects_than_modules(gnn, wanted):
    with pytest.raises(OptionError, match=wanted):
        try_out(gnn, 8, "eight")
    with pytest.raises(OptionError, match=wanted):
        GNNAK(gnn, 8, 8)
    with pytest.raises(OptionError, match=wanted):
        Stack([gnn], 8)


def test_try_out_rejects_a_cached_conv():
    """Its cache would contain the trial's graph and be used for all others."""
    with pytest.raises(OptionError, match="GCNConv has cached=True"):
        try_out(pyg.GCNConv(8, 5, cached=True), 8, "eight")
    with pytest.raises(OptionError, match="GCNConv has cached=True"):
        try_out(pyg.GCN(8, 5, 2, cached=True), 8, "eight")


@pytest.mark.parametrize(
    "make",
    [
        lambda: pyg.GCNConv(-1, 8),
        lambda: pyg.GATConv(-1, 4, heads=2),
        lambda: pyg.SAGEConv(-1, 8),
        lambda: pyg.GINConv(nn.LazyLinear(8)),
    ],
)
def test_try_out_initialises_lazy_convs_with_the_given_width(make):
    gnn = make()
    assert try_out(gnn, 6, "six").out_channels == 8
    assert gnn(torch.rand(3, 6), PATH.edge_index).shape == (3, 8)
    with pytest.raises(WidthError, match="takes width 6, but gets 7"):
        try_out(gnn, 7, "seven")


def test_try_out_gives_two_lazy_convs_different_weights():
    one, two = pyg.SAGEConv(-1, 8), pyg.SAGEConv(-1, 8)
    try_out(one, 6, "six")
    try_out(two, 6, "six")
    assert not torch.equal(one.lin_l.weight, two.lin_l.weight)


def uplifted(gnn, edge_attr):
    layer = GNNAK(gnn, 8, 8, hop_channels=0).double().eval()
    return layer(PATH.x, EgoNets(1)(PATH.edge_index, 3), edge_attr)


@pytest.mark.parametrize(
    ("gnn", "wanted"),
    [
        (pyg.GATConv(8, 8), "GATConv does not read edge attributes"),
        (pyg.SAGEConv(8, 8), "SAGEConv does not read edge attributes"),
        (pyg.GIN(8, 8, 2), "GIN does not read edge attributes"),
        (pyg.GCNConv(8, 8), r"GCNConv reads one weight per edge.*\[4, 3\]"),
    ],
)
def test_calling_does_not_drop_edge_attributes(gnn, wanted):
    """Fault of the published code: edge attributes dropped silently by convs."""
    with pytest.raises(EdgeAttrError, match=wanted):
        uplifted(gnn, PATH.edge_attr)


@pytest.mark.parametrize(
    "gnn",
    [pyg.GATConv(8, 8, edge_dim=3), pyg.GINEConv(nn.Linear(8, 8), edge_dim=3)],
    ids=lambda gnn: type(gnn).__name__,
)
def test_calling_passes_edge_attributes_to_gnns_that_read_them(gnn):
    out = uplifted(gnn, PATH.edge_attr)
    assert not torch.allclose(out, uplifted(gnn, 2 * PATH.edge_attr))


def test_calling_passes_weights_as_edge_weight():
    conv = pyg.GCNConv(8, 5).double()
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.double)
    got = try_out(conv, 8, "eight")(conv, PATH.x, PATH.edge_index, weight, None)
    assert torch.equal(got, conv(PATH.x, PATH.edge_index, weight))


def test_calling_does_not_reshape_edge_attributes():
    """[e] stays [e] and [e, 1] stays [e, 1], as if the conv were called directly."""
    gat = pyg.GATConv(8, 5, edge_dim=1).double()
    scalar = ScalarConv(8).double()
    weight = torch.arange(4, dtype=torch.double)
    for conv, edges in ((gat, weight), (gat, weight[:, None]), (scalar, weight)):
        got = try_out(conv, 8, "eight")(conv, PATH.x, PATH.edge_index, edges, None)
        assert torch.equal(got, conv(PATH.x, PATH.edge_index, edges))


@pytest.mark.parametrize(
    "gnn",
    [gine(8), gps(gine(8)), Stack([pyg.GINEConv(nn.Linear(8, 8))], channels=8)],
    ids=lambda gnn: type(gnn).__name__,
)
def test_calling_without_needed_edge_attributes_raises(gnn):
    with pytest.raises(EdgeAttrError, match=r"needs edge attributes, but got none"):
        uplifted(gnn, None)


@pytest.mark.parametrize(
    ("gnn", "widths"),
    [
        (pyg.GCNConv(8, 5), (8, 5)),
        (pyg.SAGEConv((8, 8), 5), (8, 5)),
        (pyg.GINConv(nn.Linear(7, 5)), (7, 5)),
        (pyg.GIN(6, 5, 2), (6, 5)),
        (pyg.GPSConv(8, pyg.GCNConv(8, 8)), (8, 8)),
        (pyg.GatedGraphConv(8, num_layers=2), (8, 8)),
        (pyg.EdgeConv(nn.Sequential(nn.Linear(16, 5), nn.Linear(5, 7))), (8, 7)),
        (GATEConv(8, 8, edge_dim=3), (8, 8)),
        (pyg.GCNConv(-1, 5), None),
        (ConcatConv(8, 4), None),
    ],
    ids=lambda gnn: type(gnn).__name__,
)
def test_own_widths_are_the_first_declared_widths_that_run(gnn, widths):
    assert own_widths(gnn) == widths

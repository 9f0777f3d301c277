"""Which modules `uplift` replaces (`only`, `skip`), and how it calls them (`call`)."""

import copy

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.utils import to_dense_adj, to_dense_batch

from gnnak import GNNAK, uplift
from gnnak.errors import EdgeAttrError, GraphError, OptionError, WidthError
from gnnak.nn import Call, UpliftedConv

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = pyg.GCN(4, 4, 2)
        self.head = pyg.SAGEConv(4, 4)

    def forward(self, x, edge_index):
        return self.head(self.encoder(x, edge_index), edge_index)


def uplifted_names(net):
    return {
        name for name, part in net.named_modules() if isinstance(part, UpliftedConv)
    }


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ({}, {"encoder.convs.0", "encoder.convs.1", "head"}),
        ({"only": "head"}, {"head"}),
        ({"only": "encoder"}, {"encoder.convs.0", "encoder.convs.1"}),
        ({"only": "*.convs.1"}, {"encoder.convs.1"}),
        ({"only": pyg.GCNConv}, {"encoder.convs.0", "encoder.convs.1"}),
        ({"skip": "GCNConv"}, {"head"}),
        ({"skip": [pyg.SAGEConv, "encoder.convs.0"]}, {"encoder.convs.1"}),
        ({"only": "encoder", "skip": "encoder.convs.0"}, {"encoder.convs.1"}),
    ],
    ids=lambda value: repr(sorted(value)) if isinstance(value, set) else str(value),
)
def test_only_and_skip_choose_convs_by_name_and_type(choice, wanted):
    net = uplift(Mixed(), **choice)
    assert uplifted_names(net) == wanted
    assert net(torch.rand(3, 4), PATH).shape == (3, 4)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"only": "decoder"}, r"only='decoder' matches no conv .* head \(SAGEConv\)"),
        ({"skip": pyg.GATConv}, "skip=GATConv matches no conv of the model"),
        ({"skip": "*"}, "leave no conv to uplift"),
        ({"only": 3}, "only has 3; give names of modules"),
        ({"only": [3]}, "only has 3; give names of modules"),
        ({"call": {"head": "x"}}, "give a dict from names or types"),
        ({"call": Call()}, "give a dict from names or types"),
        ({"call": {"heads": Call()}}, "call='heads' matches no conv"),
        ({"call": {"head": Call(states="h")}}, "names the argument 'h', but its"),
    ],
    ids=str,
)
def test_wrong_choices_are_answered_in_a_sentence(choice, message):
    with pytest.raises(OptionError, match=message):
        uplift(Mixed(), **choice)


class Layer(nn.Module):
    """No PyG conv; other names and another order of arguments."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 5)

    def forward(self, links, h, gap, place, scale=1.0):
        source, target = links
        messages = self.linear(h + place)[source] * gap[:, None] * scale
        return h.new_zeros(h.size(0), 5).index_add(0, target, messages)


CALL = {"states": "h", "edges": "links", "edge": "gap", "node": ["place"]}
GIVEN = PATH, torch.rand(3, 4), torch.rand(4), torch.rand(3, 4)


@pytest.mark.parametrize("name", ["hops", "num_hop", "k"])
def test_unknown_options_are_answered_with_the_arguments_of_uplift(name):
    told = f"no option '{name}'; did you mean 'num_hops'\\? Known: num_hops, only, skip"
    with pytest.raises(OptionError, match=told):
        uplift(pyg.GCNConv(2, 2), **{name: 2})
    with pytest.raises(OptionError, match="did you mean 'max_hops'"):
        GNNAK(pyg.GCNConv(2, 2), 2, 2, max_hop=2)


@pytest.mark.parametrize("widths", [{}, {"in_channels": 4, "out_channels": 5}])
def test_call_uplifts_any_module(widths):
    layer = Layer()
    plain = {"encodings": ("centroid",), "hop_channels": 0, "fuse": "sum"}
    net = uplift(layer, 5, call={Layer: Call(**CALL, **widths)}, **plain)
    assert isinstance(net, UpliftedConv) == bool(widths)
    with torch.no_grad():
        got = net(*GIVEN, scale=2.0)
    torch.testing.assert_close(got, layer(*GIVEN, scale=2.0))
    assert isinstance(net, UpliftedConv)
    full = uplift(layer, 1, call={"Layer": Call(**CALL)}).eval()
    assert full(*GIVEN).shape == (3, 5)


FAILED = (
    r"Layer failed on gap of shape \[4\] and states of width {}: .*; correct "
    "in_channels or out_channels of its Call if they are wrong, or give inputs that fit"
)


@pytest.mark.parametrize(
    ("widths", "width", "told"),
    [
        ({"in_channels": 3, "out_channels": 5}, 3, FAILED.format(3)),
        ({"in_channels": 4, "out_channels": 6}, 4, FAILED.format(4)),
        ({"in_channels": 3}, 4, r"x has shape \[3, 4\]; give \[n, 3\]"),
        ({"in_channels": 3}, 3, FAILED.format(3)),
        ({"out_channels": 6}, 4, "Layer returns states of width 5, but its Call"),
    ],
)
def test_wrong_widths_of_a_call_are_answered_in_one_sentence(widths, width, told):
    net = uplift(Layer(), call={Layer: Call(**CALL, **widths)})
    with pytest.raises(WidthError, match=told), torch.no_grad():
        net(PATH, torch.rand(3, width), *GIVEN[2:])


class BondConv(pyg.MessagePassing):
    """Adds attributes of edges, the argument `bonds`, to the messages."""

    def __init__(self):
        super().__init__(aggr="add")
        self.lin, self.bond = nn.Linear(4, 4), nn.Linear(5, 4)

    def forward(self, x, edge_index, bonds):
        return self.propagate(edge_index, x=self.lin(x), bonds=self.bond(bonds))

    def message(self, x_j, bonds):
        return torch.relu(x_j + bonds)


BONDS = torch.rand(4, 5)
DECLARED = {BondConv: Call(edge=["bonds"])}
OF_WIDTHS = {BondConv: Call(edge=["bonds"], in_channels=4, out_channels=4)}
FIRST = r"failed on bonds of shape \[4, 3\] and states of width 4: mat1.*; give inputs"
LATER = r"failed on bonds of shape \[4, 3\] and dtype .*runs on real numbers \[e, 5\]"
ROWS = r"bonds has shape \[3, 5\]; give \[4, ...\], one row for every column of edge"


@pytest.mark.parametrize(
    ("call", "is_first", "bonds", "error", "told"),
    [
        (DECLARED, True, BONDS[:-1], EdgeAttrError, ROWS),
        (DECLARED, False, BONDS[:-1], EdgeAttrError, ROWS),
        (None, False, BONDS[:-1], EdgeAttrError, ROWS),
        (DECLARED, True, BONDS[:, :3], WidthError, FIRST),
        (None, True, BONDS[:, :3], WidthError, FIRST),
        (DECLARED, False, BONDS[:, :3], EdgeAttrError, LATER),
        (None, False, BONDS[:, :3], EdgeAttrError, LATER),
        (
            OF_WIDTHS,
            True,
            BONDS[:, :3],
            WidthError,
            r"bonds of shape \[4, 3\] and stat",
        ),
    ],
)
@torch.no_grad()
def test_wrong_edge_arguments_are_answered_by_name(call, is_first, bonds, error, told):
    net, x = uplift(BondConv(), 1, call=call), torch.rand(3, 4)
    if not is_first:
        assert net(x, PATH, BONDS).shape == (3, 4)
    with pytest.raises(error, match=told):
        net(x, PATH, bonds)


class NoMask(nn.Module):
    """Returns the padded states of a dense layer, not one row for each row of `x`."""

    def __init__(self, is_flat):
        super().__init__()
        self.conv, self.is_flat = pyg.DenseGraphConv(8, 8), is_flat

    def forward(self, x, edge_index, batch=None):
        h, mask = to_dense_batch(x, batch)
        adj = to_dense_adj(edge_index, batch, max_num_nodes=h.size(1))
        out = self.conv(h, adj, mask)
        return out.flatten(0, 1) if self.is_flat else out


@pytest.mark.parametrize(("is_flat", "shape"), [(False, "3, 3, 8"), (True, "9, 8")])
def test_output_without_one_row_for_every_node_copy_is_refused(is_flat, shape):
    call = Call(batch="batch", in_channels=8, out_channels=8)
    net = uplift(NoMask(is_flat), 1, call={NoMask: call})
    told = rf"NoMask returned \[{shape}\]; give one row for every row of x, \[7, 8\]"
    with pytest.raises(WidthError, match=told):
        net(torch.rand(3, 8), PATH)


def test_call_and_convs_are_uplifted_together():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.mine, self.theirs = Layer(), pyg.GCNConv(5, 5)

        def forward(self, *given):
            return self.theirs(self.mine(*given), given[0])

    net = uplift(Both(), call={"mine": Call(**CALL, in_channels=4, out_channels=5)})
    assert uplifted_names(net) == {"mine", "theirs"}
    assert net(*GIVEN).shape == (3, 5)


def test_call_refuses_a_module_that_returns_no_states():
    class Pools(Layer):
        def forward(self, links, h, gap, place):
            return h.sum(dim=0)

    net = uplift(Pools(), call={Pools: Call(**CALL)})
    with pytest.raises(WidthError, match=r"Pools returns no node states \[3, c\]"):
        net(*GIVEN)


def test_lazy_layers_are_built_at_the_first_call_and_then_saved():
    model = pyg.Sequential(
        "x, edge_index",
        [
            (pyg.GCNConv(-1, 6), "x, edge_index -> x"),
            (pyg.APPNP(2, 0.1), "x, edge_index -> x"),
        ],
    )
    net = uplift(model)
    assert "built at the first call" in repr(net)
    copied = copy.deepcopy(net)
    with pytest.warns(UserWarning, match="0 is built now, for states of width 4"):
        copy.deepcopy(net)[0](torch.rand(3, 4), PATH)
    for one in (net, copied):
        with torch.no_grad():
            assert one(torch.rand(3, 4), PATH).shape == (3, 6)
        assert len(uplifted_names(one)) == 2
    copied.load_state_dict(net.state_dict())
    x = torch.rand(3, 4)
    assert torch.equal(net.eval()(x, PATH), copied.eval()(x, PATH))


def test_lazy_layer_called_with_another_width_is_answered_in_a_sentence():
    net = uplift(pyg.APPNP(2, 0.1)).eval()
    net(torch.rand(3, 4), PATH)
    with pytest.raises(WidthError, match=r"first called with states of width 4, and"):
        net(torch.rand(3, 5), PATH)


class _NodeModel(nn.Module):
    """Sums the attributes of the incoming edges, for PyG's `MetaLayer`."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 5)

    def forward(self, x, edge_index, edge_attr, u, batch):
        sums = x.new_zeros(x.size(0), 3).index_add(0, edge_index[1], edge_attr)
        return self.linear(torch.cat([x, sums], dim=1))


def test_call_uplifts_a_meta_layer_of_pyg():
    layer = pyg.MetaLayer(node_model=_NodeModel())
    with pytest.raises(OptionError, match="MetaLayer has no PyG MessagePassing inside"):
        uplift(layer)
    told = Call(edge=["edge_attr"], batch="batch", returns_tuple=True)
    plain = {"encodings": ("centroid",), "hop_channels": 0, "fuse": "sum"}
    net = uplift(layer, 3, call={pyg.MetaLayer: told}, **plain).eval()
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    x, edge_attr = torch.rand(3, 5), torch.rand(4, 3)
    got, wanted = (each(x, path, edge_attr) for each in (net, layer))
    torch.testing.assert_close(got[0], wanted[0])
    assert got[1] is edge_attr


def test_first_argument_of_whole_numbers_is_answered_with_skip():
    class Categories(pyg.MessagePassing):
        def forward(self, kind, edge_index):
            return self.propagate(edge_index, x=kind[:, None].double())

    net = uplift(nn.Sequential(Categories()))
    with pytest.raises(GraphError, match=r"of 0, kind, is torch.int64.*skip='0'"):
        net[0](torch.arange(3), torch.tensor([[0], [1]]))

import copy
import gc
import warnings
import weakref
from dataclasses import replace

import networkx as nx
import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv
from torch_geometric.nn.models.attentive_fp import GATEConv

import gnnak
from gnnak import GNNAK, EgoNets, RandomWalks, SubgraphDrop, uplift
from gnnak.errors import EdgeAttrError, OptionError, WidthError
from gnnak.graphs.real import RealCounts
from gnnak.nn import UpliftedConv
from gnnak.nn.uplifted_conv import GrowthWatch
from gnnak.testing import small_graphs
from tests.nn.users_convs import BondConv, ConcatConv, SquareConv, users_convs

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
X = torch.rand(3, 4)


class TheirModel(nn.Module):
    """A typical model of a user: embedding, convs, readout, and another signature."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 8)
        self.first = pyg.GATConv(8, 4, heads=2, edge_dim=3)
        self.rest = nn.ModuleList(
            [pyg.GINEConv(nn.Linear(8, 8), edge_dim=3) for _ in range(2)]
        )
        self.last = pyg.GraphConv(8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, batch: Data, weight=None):
        x = self.embed(batch.x)
        x = self.first(x, batch.edge_index, edge_attr=batch.edge_attr).relu()
        for conv in self.rest:
            x = conv(x, batch.edge_index, batch.edge_attr).relu()
        x = self.last(x, batch.edge_index, weight)
        return self.head(pyg.global_add_pool(x, batch.batch))


def loader(count=6):
    graphs = [
        Data(x=torch.randint(5, (3,)), edge_index=PATH, edge_attr=torch.rand(4, 3))
        for _ in range(count)
    ]
    return DataLoader(graphs, batch_size=3)


def test_uplift_runs_a_users_model_on_a_pyg_loader():
    net = uplift(TheirModel(), num_hops=2)
    assert isinstance(net, TheirModel)
    assert sum(isinstance(part, UpliftedConv) for part in net.modules()) == 4
    for batch in loader():
        out = net(batch, weight=torch.rand(batch.num_edges))
        assert out.shape == (3, 2)
        out.sum().backward()
    assert all(p.grad is not None for p in net.parameters())


def test_uplift_leaves_the_model_alone_and_keeps_its_weights():
    model = TheirModel()
    before = copy.deepcopy(model.state_dict())
    net = uplift(model)
    assert not any(isinstance(part, UpliftedConv) for part in model.modules())
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert torch.equal(net.rest[1].layer.gnn.lin.weight, model.rest[1].lin.weight)


@pytest.fixture
def extractions(monkeypatch):
    calls = []
    for cls in (EgoNets, RandomWalks):
        original = cls.__call__

        def counting(self, *args, original=original):
            calls.append(self)
            return original(self, *args)

        monkeypatch.setattr(cls, "__call__", counting)
    return calls


def test_uplift_extracts_once_per_forward_pass(extractions):
    net = uplift(TheirModel(), num_hops=1)
    for passes, batch in enumerate(loader(), start=1):
        net(batch)
        assert len(extractions) == passes


def test_uplift_caches_egonets_until_the_graph_changes(extractions):
    net, x = uplift(pyg.GCN(4, 4, 2), num_hops=1), torch.rand(3, 4)
    edge_index = PATH.clone()
    first = net(x, edge_index)
    net(x, edge_index)
    assert len(extractions) == 1
    edge_index[:, 3] = torch.tensor([2, 0])
    assert not torch.equal(net(x, edge_index), first)
    assert len(extractions) == 2
    net(torch.rand(5, 4), edge_index)
    assert len(extractions) == 3


@pytest.mark.parametrize("drop", [None, SubgraphDrop("random", 1)])
def test_uplift_does_not_keep_graphs_in_memory(drop):
    net = uplift(pyg.GCN(4, 4, 2), num_hops=1, drop=drop)
    edge_index = PATH.clone()
    net(torch.rand(3, 4), edge_index)
    shared = net.convs[0].shared.subgraphs
    subgraphs = [weakref.ref(shared.get(edge_index, 3, mode)) for mode in (True, False)]
    assert all(reference() is not None for reference in subgraphs)
    del edge_index
    gc.collect()
    assert all(reference() is None for reference in subgraphs)


def test_uplift_resamples_walks_in_training_and_fixes_them_in_evaluation(extractions):
    clique = torch.combinations(torch.arange(9)).t()
    clique = torch.cat([clique, clique.flip(0)], dim=1)
    net = uplift(pyg.GIN(4, 4, 2), RandomWalks(length=2, repeats=1))
    x = torch.rand(9, 4)
    assert not torch.equal(net(x, clique), net(x, clique))
    assert len(extractions) == 2
    net.eval()
    assert torch.equal(net(x, clique), net(x, clique))


def test_uplift_of_one_conv_and_of_pyg_sequential():
    conv = uplift(pyg.SAGEConv(4, 6), num_hops=1)
    assert conv(torch.rand(3, 4), PATH).shape == (3, 6)
    assert (conv.in_channels, conv.out_channels) == (4, 6)
    layers = [(pyg.GCNConv(4, 8), "x, edge_index -> x"), nn.ReLU(), nn.Linear(8, 2)]
    net = uplift(pyg.Sequential("x, edge_index", layers))
    assert net(torch.rand(3, 4), PATH).shape == (3, 2)


@pytest.mark.parametrize("name", users_convs(4))
def test_uplift_runs_convs_written_by_users(name):
    conv, edge_attr = users_convs(4)[name]
    net = uplift(conv)
    assert net(torch.rand(3, 4), PATH, edge_attr).shape == (3, 4)


@pytest.mark.parametrize(
    ("make", "edge_channels"),
    [
        (lambda: pyg.GatedGraphConv(4, num_layers=2), None),
        (lambda: pyg.GraphSAGE(4, 6, 2, 4, aggr="lstm"), None),
        (lambda: GATEConv(4, 4, edge_dim=3), 3),
        (lambda: pyg.GPSConv(4, pyg.GINEConv(nn.Linear(4, 4), edge_dim=3)), 3),
    ],
    ids=["GatedGraphConv", "LSTM", "GATEConv", "GPSConv"],
)
def test_uplift_finds_the_width_of_unusual_convs(make, edge_channels):
    options = {"edge_attr": torch.rand(4, edge_channels)} if edge_channels else {}
    assert uplift(make())(torch.rand(3, 4), PATH, **options).shape == (3, 4)


def test_uplift_takes_any_extractor():
    model, x = pyg.GIN(4, 4, 2), torch.rand(3, 4)
    nets = []
    for hops in (1, EgoNets(1)):
        torch.manual_seed(0)
        nets.append(uplift(model, hops))
    assert torch.equal(nets[0](x, PATH), nets[1](x, PATH))


def test_uplift_does_not_change_uplifted_layers():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = GNNAK(pyg.GCNConv(4, 4), 4, 4, hop="add")
            self.uplifted = uplift(pyg.GCNConv(4, 4))
            self.conv = pyg.GCNConv(4, 4)

    net = uplift(Mixed())
    assert isinstance(net.conv, UpliftedConv)
    for layer in (net.layer, net.uplifted.layer, net.conv.layer):
        assert isinstance(layer, GNNAK)
        assert isinstance(layer.gnn, pyg.GCNConv)


def test_uplift_keeps_a_shared_conv_shared():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = self.two = pyg.GCNConv(4, 4)

        def forward(self, x, edge_index):
            return self.two(self.one(x, edge_index), edge_index)

    net = uplift(Tied())
    assert net.one is net.two
    net(torch.rand(3, 4), PATH)


def test_uplift_wraps_the_convs_of_a_shared_module_once():
    block = nn.ModuleDict({"conv": pyg.GCNConv(4, 4)})
    net = uplift(nn.ModuleDict({"one": block, "two": block}))
    assert net["one"] is net["two"]
    assert isinstance(net["one"]["conv"].layer.gnn, pyg.GCNConv)


def test_uplifted_model_copies_and_round_trips(tmp_path):
    net, x = uplift(pyg.GIN(4, 4, 2)).eval(), torch.rand(3, 4)
    out = net(x, PATH)
    assert torch.equal(copy.deepcopy(net)(x, PATH), out)
    torch.save(net.state_dict(), tmp_path / "net.pt")
    other = uplift(pyg.GIN(4, 4, 2)).eval()
    other.load_state_dict(torch.load(tmp_path / "net.pt", weights_only=True))
    assert torch.equal(other(x, PATH), out)


def test_weights_of_the_plain_model_are_answered_with_what_to_do():
    model = pyg.GIN(4, 4, 2)
    told = r"Unexpected(.|\n)*convs\.1 has weights from before uplift; load them into "
    with pytest.raises(RuntimeError, match=told):
        uplift(model).load_state_dict(model.state_dict())
    partly = {k: v for k, v in uplift(model).state_dict().items() if "gnn" in k}
    assert uplift(model).load_state_dict(partly, strict=False).missing_keys


def test_weights_for_another_radius_are_answered_with_what_to_do():
    told = "weights for distances up to 2, but this layer is for distances up to 3"
    weights = uplift(pyg.GIN(4, 4, 2), num_hops=2).state_dict()
    with pytest.raises(RuntimeError, match=told):
        uplift(pyg.GIN(4, 4, 2), num_hops=3).load_state_dict(weights)


def test_uplifted_model_pickles_whole(tmp_path):
    net, x = uplift(pyg.GIN(4, 4, 2)).eval(), torch.rand(3, 4)
    out = net(x, PATH)
    torch.save(net, tmp_path / "net.pt")
    again = torch.load(tmp_path / "net.pt", weights_only=False)
    assert torch.equal(again(x, PATH), out)


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
@pytest.mark.parametrize(
    "backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]
)
def test_uplifted_model_compiled_equals_eager(backend):
    net = uplift(pyg.GIN(4, 4, 1)).double().eval()
    data = small_graphs(4)["star"]
    compiled = torch.compile(net, backend=backend)
    given = data.x, data.edge_index
    torch.testing.assert_close(compiled(*given), net(*given))


def test_uplifted_model_resets_its_weights():
    net = uplift(pyg.GIN(4, 4, 2)).eval()
    before = copy.deepcopy(net.state_dict())
    net.reset_parameters()
    after = net.state_dict()
    changed = [k for k in before if not torch.equal(before[k], after[k])]
    assert any("gnn" in key for key in changed)
    assert any("hop_table" in key for key in changed)
    gates = [key for key in before if "gates" in key]
    assert gates
    assert set(gates) <= set(changed)


@pytest.mark.parametrize(
    ("conv", "edge_attr"),
    [
        (ConcatConv(8, 4), torch.rand(4, 4)),
        (SquareConv(8, 5), torch.rand(4, 5)),
        (SquareConv(8, 5).double(), torch.rand(4, 5).double()),
        (BondConv(8, 6), torch.ones(4, 6).long()),
    ],
)
def test_uplift_tries_the_edge_attributes_of_the_first_call(conv, edge_attr):
    net = uplift(conv, num_hops=1)
    x = torch.rand(3, 8, dtype=next(conv.parameters()).dtype)
    with torch.no_grad():
        empty = net(x, PATH[:, :0], edge_attr[:0])
    assert empty.shape == net(x, PATH, edge_attr).shape == (3, 8)
    with pytest.raises(EdgeAttrError, match="needs edge attributes, but got none"):
        net(x, PATH)


WRONG = {
    "no conv": (
        lambda: uplift(nn.Linear(3, 3)),
        (OptionError, "no PyG MessagePassing inside"),
    ),
    "an uplifted model": (
        lambda: uplift(uplift(pyg.GCN(4, 4, 2))),
        (OptionError, "this model is already uplifted"),
    ),
    "an uplifted conv": (
        lambda: uplift(uplift(pyg.GCNConv(4, 4))),
        (OptionError, "this model is already uplifted"),
    ),
    "a GNNAK layer": (
        lambda: uplift(GNNAK(pyg.GCNConv(4, 4), 4, 4, hop="add")),
        (OptionError, "this model is already uplifted"),
    ),
    "a dense layer": (
        lambda: GNNAK(pyg.DenseGCNConv(8, 8), 8, 8, hop="add"),
        (OptionError, "takes dense adj.*docs/supported-convs.md#layers-with-a-dense-"),
    ),
    "None": (lambda: uplift(None), (OptionError, "the model is None; give a built Py")),
    "a name": (lambda: uplift("GIN"), (OptionError, "the model is 'GIN'; give a buil")),
    "a class": (
        lambda: uplift(pyg.GCN),
        (OptionError, r"the model GCN is a class; build it first: GCN\(...\)\."),
    ),
    "negative num_hops": (
        lambda: uplift(pyg.GCN(4, 4, 2), num_hops=-1),
        (OptionError, "num_hops is -1"),
    ),
    "edges of another width": (
        lambda: uplift(SquareConv(8, 5))(torch.rand(3, 8), PATH, torch.rand(4, 6)),
        (WidthError, r"SquareConv failed .* edge_dim .* call="),
    ),
    "missing edge attributes": (
        lambda: uplift(SquareConv(8, 5))(torch.rand(3, 8), PATH, None),
        (WidthError, r"SquareConv failed .* edge_dim .* call="),
    ),
    "a cached conv": (
        lambda: uplift(pyg.GCNConv(4, 4, cached=True)),
        (OptionError, "cached=True"),
    ),
    "edge attributes that are not read": (
        lambda: uplift(pyg.GAT(4, 4, 2))(X, PATH, edge_attr=torch.rand(4, 3)),
        (EdgeAttrError, "does not read edge attributes"),
    ),
    "an unsupported argument": (
        lambda: uplift(pyg.GATConv(4, 4))(X, PATH, return_attention_weights=True),
        (OptionError, "got return_attention_weights=True"),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_uplift_refuses(name):
    call, (error, message) = WRONG[name]
    with pytest.raises(error, match=message):
        call()


GRAPH = nx.barabasi_albert_graph(60, 4, seed=0)
EDGES = torch.tensor(list(GRAPH.edges)).t()
EDGES = torch.cat([EDGES, EDGES.flip(0)], dim=1)


class Net(nn.Module):
    def __init__(self, norm=False):
        super().__init__()
        torch.manual_seed(0)
        self.convs = nn.ModuleList(GINConv(nn.Linear(8, 8)) for _ in range(3))
        self.norms = nn.ModuleList(
            nn.BatchNorm1d(8) if norm else nn.Identity() for _ in range(3)
        )
        self.head = nn.Linear(8, 1)

    def forward(self, x, edge_index):
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = norm(conv(x, edge_index)).relu()
        return self.head(x)


def states():
    return torch.rand(60, 8, generator=torch.Generator().manual_seed(0))


def test_states_that_blow_up_are_reported_once_with_what_to_set():
    model = gnnak.uplift(Net(), 3)
    with pytest.warns(UserWarning, match="Set reduce='mean' in gnnak.uplift") as caught:
        model(states(), EDGES)
    (found,) = caught
    assert "3 uplifted convs multiply the size of node states by" in str(found.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(states(), EDGES)


@pytest.mark.parametrize(
    ("norm", "options", "training"),
    [(False, {"reduce": "mean"}, True), (True, {}, True), (False, {}, False)],
    ids=["mean", "norm", "evaluation"],
)
def test_states_that_stay_small_are_not_reported(norm, options, training):
    model = gnnak.uplift(Net(norm), 3, **options).train(training)
    for _ in range(4):
        assert model(states(), EDGES).isfinite().all()


def test_padded_batches_are_not_measured():
    watch, subgraphs = GrowthWatch(), gnnak.EgoNets(1)(torch.zeros(2, 0).long(), 2)
    layer = gnnak.GNNAK(GINConv(nn.Linear(2, 2)), 2, 2, hop_channels=0)
    real = RealCounts(torch.tensor([1, 1, 0, 1, 1, 0]))
    for given, measured in ((subgraphs, 1), (replace(subgraphs, real=real), 1)):
        watch.see("conv", layer, torch.ones(2, 2), torch.ones(2, 2), given)
        assert len(watch._sizes) == measured

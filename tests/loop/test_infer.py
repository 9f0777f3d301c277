import re

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

import gnnak
from gnnak import EgoNets, PageRankNeighbors, RandomWalks, infer
from gnnak.errors import GraphError, OptionError
from gnnak.models import ModelOptions, build_model
from gnnak.nn.features import Continuous
from gnnak.testing import small_graphs

WIDTH = 6


def random_data(num_nodes=30, num_edges=90):
    torch.manual_seed(0)
    edge_index = torch.randint(num_nodes - 2, (2, num_edges))  # two isolated nodes
    return Data(
        x=torch.rand(num_nodes, WIDTH, dtype=torch.double), edge_index=edge_index
    )


def assert_same(model, data, max_copies=10, **options):
    model = model.double()
    model.train()
    found = infer(model, data, max_copies=max_copies, **options)
    assert model.training
    with torch.no_grad():
        expected = model.eval()(data.x, data.edge_index)
    torch.testing.assert_close(found, expected)
    return found


CONVS = {
    "gcn": lambda: pyg.GCNConv(WIDTH, WIDTH),
    "sage": lambda: pyg.SAGEConv(WIDTH, WIDTH, aggr="max"),
    "gin": lambda: pyg.GINConv(nn.Linear(WIDTH, WIDTH)),
    "gat": lambda: pyg.GATConv(WIDTH, 3, heads=2),
    "gatv2": lambda: pyg.GATv2Conv(WIDTH, 3, heads=2),
    "transformer": lambda: pyg.TransformerConv(WIDTH, 3, heads=2),
    "edge": lambda: pyg.EdgeConv(nn.Linear(2 * WIDTH, WIDTH)),
    "cheb": lambda: pyg.ChebConv(WIDTH, WIDTH, K=3),
    "tag": lambda: pyg.TAGConv(WIDTH, WIDTH),
    "source": lambda: pyg.SAGEConv(WIDTH, WIDTH, flow="target_to_source"),
}


@pytest.mark.parametrize("name", CONVS)
def test_infer_of_plain_convs_equals_the_whole_graph(name):
    model = pyg.Sequential(
        "x, edge_index",
        [
            (CONVS[name](), "x, edge_index -> x"),
            (nn.BatchNorm1d(WIDTH), "x -> x"),
            (nn.Dropout(0.5), "x -> x"),
            (CONVS[name](), "x, edge_index -> x"),
        ],
    )
    assert_same(model, random_data())


def test_infer_of_convs_with_edge_attributes_slices_these():
    data = random_data()
    data.edge_attr = torch.rand(data.num_edges, 2, dtype=torch.double)
    model = pyg.GINEConv(nn.Linear(WIDTH, WIDTH), edge_dim=2).double().eval()
    found = infer(model, data, max_copies=7)
    expected = model(data.x, data.edge_index, data.edge_attr)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize(
    "extractor",
    [EgoNets(1), EgoNets(2), EgoNets(2, max_neighbors=3), PageRankNeighbors(4)],
    ids=str,
)
def test_infer_of_uplifted_models_equals_the_whole_graph(extractor, reduce):
    gcn = pyg.GCN(WIDTH, 8, num_layers=2, out_channels=3, norm="batch_norm")
    net = gnnak.uplift(gcn, extractor, reduce=reduce)
    found = assert_same(net, random_data())
    some = infer(net, random_data(), nodes=[29, 0], max_copies=1)
    torch.testing.assert_close(some, found[[29, 0]])


@pytest.mark.parametrize(
    "model", ["gcn-ak+", "gin-ak", "gin-ak+-s", "gcn", "sswl+-gin"]
)
def test_infer_of_networks_equals_the_whole_graph(model):
    torch.manual_seed(0)
    options = ModelOptions(num_layers=2, channels=8)
    net = build_model(model, Continuous(WIDTH), None, 3, options, node_task=True)
    assert_same(net, random_data(12, 24))


def test_infer_of_random_walks_extracts_all_subgraphs():
    net = gnnak.uplift(pyg.GCN(WIDTH, 8, num_layers=1), RandomWalks(3, 2))
    assert_same(net, random_data())


@pytest.mark.parametrize("name", small_graphs())
def test_infer_of_small_graphs(name):
    data = small_graphs(WIDTH)[name]
    assert_same(gnnak.uplift(pyg.SAGEConv(WIDTH, 4), 1), data, max_copies=1)
    assert_same(pyg.GATConv(WIDTH, 4), data, max_copies=1)


def test_infer_refuses_outputs_that_are_not_of_nodes():
    net = build_model("gin-ak+", Continuous(WIDTH), None, 3).double()
    with pytest.raises(OptionError, match=re.escape("one row for each of the 30")):
        infer(net, random_data())


def test_infer_refuses_wrong_data_and_nodes():
    conv = pyg.GCNConv(WIDTH, 2).double()
    with pytest.raises(GraphError, match="give one PyG Data"):
        infer(conv, Data(x=torch.rand(3, WIDTH)))
    with pytest.raises(OptionError, match="nodes has node 30"):
        infer(conv, random_data(), nodes=[30])
    data = random_data()
    infer(conv, data)
    assert not hasattr(data.edge_index, "gnnak_subgraphs")

"""Any PyG conv and any PyG model, uplifted: it runs, it learns, it is equivariant."""

import copy

import pytest
import torch
from torch_geometric import nn as pyg
from torch_geometric.data import Batch

from gnnak import GNNAK, EgoNets, uplift
from gnnak.testing import (
    assert_batching_consistent,
    assert_permutation_equivariant,
    small_graphs,
)
from tests.nn import catalogue
from tests.nn.catalogue import ATTRIBUTED, C, E, Entry, basic

H = 2
CONVS = [
    *("GCNConv", "GINConv", "GINEConv", "SAGEConv", "GATConv", "GATConv of mean heads"),
    *("GATv2Conv", "TransformerConv", "GraphConv", "LEConv", "TAGConv", "ChebConv"),
    *("SGConv", "ARMAConv", "ResGatedGraphConv", "GENConv", "GeneralConv", "NNConv"),
    *("CGConv", "PNAConv", "FiLMConv", "MFConv", "GatedGraphConv", "ClusterGCNConv"),
    *("SuperGATConv", "EdgeConv", "FeaStConv"),
]
MODELS = ["GCN", "GIN", "GraphSAGE", "GAT", "GATv2", "PNA", "EdgeCNN"]
ENTRIES = {
    **catalogue.CONVS,
    **catalogue.MODELS,
    "GATConv of mean heads": Entry(lambda: pyg.GATConv(C, C, heads=2, concat=False)),
    "GAT": Entry(lambda: basic(pyg.GAT, heads=2, edge_dim=E), ATTRIBUTED),
    "GATv2": Entry(lambda: basic(pyg.GAT, v2=True, jk="max")),
}
IDLE = {"MFConv": ["gnn.lins_l.0.weight"]}
"""By GNN: suffixes of the names of parameters without gradient: here, the sum over no
neighbours, of nodes of degree 0."""


def uplifted_conv(name: str):
    entry = ENTRIES[name]
    layer = GNNAK(entry.make(), C - H, 6, hop_channels=H, max_hops=2).double().eval()

    def function(data):
        subs = EgoNets(2)(data.edge_index, data.num_nodes)
        with_edges = entry.given == ATTRIBUTED
        return layer(data.x[:, H:], subs, data.edge_attr if with_edges else None)

    return layer, function


def uplifted_model(name: str):
    entry = ENTRIES[name]
    net = uplift(entry.make(), num_hops=2).double().eval()

    def function(data):
        with_edges = entry.given == ATTRIBUTED
        options = {"edge_attr": data.edge_attr} if with_edges else {}
        return net(data.x, data.edge_index, **options)

    return net, function


def usable(data) -> bool:
    """Some convs of PyG itself cannot take a graph without nodes or edges."""
    return data.num_nodes > 0 and data.num_edges > 0


def check_everything(module, function, takes_empty_graphs, idle=()):
    """Check symmetry, batching, inputs, and gradients except of weights in `idle`."""
    graphs = [g for g in small_graphs(C, E).values() if takes_empty_graphs or usable(g)]
    for data in graphs:
        assert_permutation_equivariant(function, data)
    assert_batching_consistent(function, graphs)
    batch = Batch.from_data_list(graphs)
    before = {k: copy.deepcopy(batch[k]) for k in ("x", "edge_index", "edge_attr")}
    module.train()
    function(batch).square().sum().backward()
    for key, value in before.items():
        assert torch.equal(batch[key], value), key
    without = [
        name
        for name, p in module.named_parameters()
        if p.grad is None or not (p.grad.any() or name.endswith(tuple(idle)))
    ]
    assert without == []


@pytest.mark.parametrize("name", CONVS)
def test_uplifted_conv_runs_learns_and_is_equivariant(name):
    idle = IDLE.get(name, ())
    check_everything(*uplifted_conv(name), takes_empty_graphs=False, idle=idle)


@pytest.mark.parametrize("name", MODELS)
def test_uplifted_model_runs_learns_and_is_equivariant(name):
    check_everything(*uplifted_model(name), takes_empty_graphs=False)


@pytest.mark.parametrize("name", ["GCN", "GIN", "GraphSAGE", "GAT"])
def test_uplifted_model_takes_every_corner_case(name):
    check_everything(*uplifted_model(name), takes_empty_graphs=True)

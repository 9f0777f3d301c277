"""Any PyG conv and any PyG model, uplifted: it runs, it learns, it is equivariant."""

import copy

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Batch

from gnnak import GNNAK, EgoNets, uplift
from gnnak.testing import (
    assert_batching_consistent,
    assert_permutation_equivariant,
    small_graphs,
)

C, E, H = 4, 3, 4
DEGREES = torch.tensor([1, 4, 6, 2])


def lin(width_in=C, width_out=C):
    return nn.Linear(width_in, width_out)


def convs(c: int = C) -> dict[str, tuple[nn.Module, bool]]:
    """Conv by name, of width c, and whether it is given edge attributes of width E."""
    scale = {"aggregators": ["mean", "max"], "scalers": ["identity"], "deg": DEGREES}
    return {
        "GCNConv": (pyg.GCNConv(c, c), False),
        "GINConv": (pyg.GINConv(lin(c, c), train_eps=True), False),
        "GINEConv": (pyg.GINEConv(lin(c, c), edge_dim=E), True),
        "SAGEConv": (pyg.SAGEConv(c, c), False),
        "GATConv": (pyg.GATConv(c, c, heads=2, edge_dim=E), True),
        "GATConv without edges": (pyg.GATConv(c, c, heads=2, concat=False), False),
        "GATv2Conv": (pyg.GATv2Conv(c, c, edge_dim=E), True),
        "TransformerConv": (pyg.TransformerConv(c, c, edge_dim=E), True),
        "GraphConv": (pyg.GraphConv(c, c), False),
        "LEConv": (pyg.LEConv(c, c), False),
        "TAGConv": (pyg.TAGConv(c, c, K=2), False),
        "ChebConv": (pyg.ChebConv(c, c, K=3), False),
        "SGConv": (pyg.SGConv(c, c, K=2), False),
        "ARMAConv": (pyg.ARMAConv(c, c, num_layers=2), False),
        "ResGatedGraphConv": (pyg.ResGatedGraphConv(c, c, edge_dim=E), True),
        "GENConv": (pyg.GENConv(c, c, edge_dim=E), True),
        "GeneralConv": (pyg.GeneralConv(c, c, in_edge_channels=E), True),
        "NNConv": (pyg.NNConv(c, c, nn.Linear(E, c * c)), True),
        "CGConv": (pyg.CGConv(c, dim=E), True),
        "PNAConv": (pyg.PNAConv(c, c, **scale, edge_dim=E), True),
        "FiLMConv": (pyg.FiLMConv(c, c), False),
        "MFConv": (pyg.MFConv(c, c, max_degree=2), False),
        "GatedGraphConv": (pyg.GatedGraphConv(c, num_layers=2), False),
        "ClusterGCNConv": (pyg.ClusterGCNConv(c, c), False),
        "SuperGATConv": (pyg.SuperGATConv(c, c), False),
        "EdgeConv": (pyg.EdgeConv(lin(2 * c, c)), False),
        "FeaStConv": (pyg.FeaStConv(c, c, heads=2), False),
    }


def models() -> dict[str, tuple[nn.Module, bool]]:
    """Model by name, and whether it is given edge attributes."""
    options = {
        "in_channels": C,
        "hidden_channels": 6,
        "num_layers": 2,
        "out_channels": 5,
    }
    scale = {"aggregators": ["mean", "max"], "scalers": ["identity"], "deg": DEGREES}
    return {
        "GCN": (pyg.GCN(**options), False),
        "GIN": (pyg.GIN(**options, norm="batch_norm"), False),
        "GraphSAGE": (pyg.GraphSAGE(**options, jk="cat"), False),
        "GAT": (pyg.GAT(**options, heads=2, edge_dim=E), True),
        "GATv2": (pyg.GAT(**options, v2=True, jk="max"), False),
        "PNA": (pyg.PNA(**options, **scale, edge_dim=E), True),
        "EdgeCNN": (pyg.EdgeCNN(**options), False),
    }


CONVS, MODELS = list(convs()), list(models())

IDLE = {
    "MFConv": {
        "gnn.lins_l.0.weight": "the sum over no neighbours, of nodes of degree 0"
    },
}
"""By GNN: suffixes of the names of parameters without gradient, and why."""


def uplifted_conv(name: str):
    """The conv inside a GNNAK layer with D2C, as a function of a `Data`."""
    conv, with_edges = convs(C + H)[name]
    layer = GNNAK(conv, C, 6, hop_channels=H, max_hops=2).double().eval()

    def function(data):
        subs = EgoNets(2)(data.edge_index, data.num_nodes)
        return layer(data.x, subs, data.edge_attr if with_edges else None)

    return layer, function


def uplifted_model(name: str):
    """The whole model uplifted, called as before, as a function of a `Data`."""
    model, with_edges = models()[name]
    net = uplift(model, num_hops=2).double().eval()

    def function(data):
        options = {"edge_attr": data.edge_attr} if with_edges else {}
        return net(data.x, data.edge_index, **options)

    return net, function


def usable(data) -> bool:
    """Some convs of PyG itself cannot take a graph without nodes or edges."""
    return data.num_nodes > 0 and data.num_edges > 0


def check_everything(module, function, takes_empty_graphs, idle=()):
    """Check symmetry and batching, that inputs do not change, and all gradients.

    Parameters whose name ends like one of `idle` may have a gradient of zero.
    """
    graphs = [g for g in small_graphs(C, E).values() if takes_empty_graphs or usable(g)]
    for data in graphs:
        assert_permutation_equivariant(function, data)
    assert_batching_consistent(function, graphs)
    batch = Batch.from_data_list(graphs)
    before = {
        key: copy.deepcopy(batch[key]) for key in ("x", "edge_index", "edge_attr")
    }
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
    idle = IDLE.get(name, {})
    check_everything(*uplifted_conv(name), takes_empty_graphs=False, idle=idle)


@pytest.mark.parametrize("name", MODELS)
def test_uplifted_model_runs_learns_and_is_equivariant(name):
    idle = IDLE.get(name, {})
    check_everything(*uplifted_model(name), takes_empty_graphs=False, idle=idle)


@pytest.mark.parametrize("name", ["GCN", "GIN", "GraphSAGE", "GAT"])
def test_uplifted_model_takes_every_corner_case(name):
    check_everything(*uplifted_model(name), takes_empty_graphs=True)

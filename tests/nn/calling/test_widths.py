import torch_geometric.nn as pyg
from torch import nn

from gnnak.nn.calling.widths import edge_widths, node_widths
from tests.nn.users_convs import BesideConv, RawWeightConv


def test_node_widths_are_its_own_first_then_those_of_its_parts():
    assert node_widths(pyg.GCNConv(8, 5)) == [8, 5]
    assert node_widths(pyg.GatedGraphConv(6, num_layers=2)) == [6]
    mlp = nn.Sequential(nn.Linear(16, 5), nn.Linear(5, 7))
    assert node_widths(pyg.EdgeConv(mlp)) == [16, 5]


def test_node_widths_of_those_that_declare_none():
    assert node_widths(pyg.APPNP(K=2, alpha=0.1)) == []
    assert node_widths(pyg.GCNConv(-1, 8)) == []
    assert node_widths(pyg.SAGEConv((4, 6), 5))[0] == 5


def test_edge_widths_know_attributes_bare_weights_and_what_stands_beside_a_state():
    assert 3 in edge_widths(pyg.GATConv(8, 5, edge_dim=3), 8)
    assert 7 in edge_widths(RawWeightConv(8), 8)
    assert 4 in edge_widths(BesideConv(8, 4), 8)
    assert edge_widths(nn.ReLU(), 8) == [8, 1]
    assert edge_widths(pyg.GCNConv(-1, 8), 8)[:2] == [8, 1]
    assert min(edge_widths(pyg.GATConv(8, 5, edge_dim=3), 8)) > 0

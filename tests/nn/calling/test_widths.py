import torch_geometric.nn as pyg
from torch import nn

from gnnak.nn.calling.signature import edge_widths, node_widths
from tests.nn.users_convs import ConcatConv, RawWeightConv


def test_node_widths_list_the_gnn_before_its_submodules():
    assert node_widths(pyg.GCNConv(8, 5)) == [8, 5]
    assert node_widths(pyg.GatedGraphConv(6, num_layers=2)) == [6]
    mlp = nn.Sequential(nn.Linear(16, 5), nn.Linear(5, 7))
    assert node_widths(pyg.EdgeConv(mlp)) == [16, 5]


def test_node_widths_are_empty_if_none_is_declared():
    assert node_widths(pyg.APPNP(K=2, alpha=0.1)) == []
    assert node_widths(pyg.GCNConv(-1, 8)) == []
    assert node_widths(pyg.SAGEConv((4, 6), 5))[0] == 5


def test_edge_widths_read_attributes_parameters_and_concatenated_widths():
    assert 3 in edge_widths(pyg.GATConv(8, 5, edge_dim=3), 8)
    assert 7 in edge_widths(RawWeightConv(8), 8)
    assert 4 in edge_widths(ConcatConv(8, 4), 8)
    assert edge_widths(nn.ReLU(), 8) == [8, 1]
    assert edge_widths(pyg.GCNConv(-1, 8), 8)[:2] == [8, 1]
    assert min(edge_widths(pyg.GATConv(8, 5, edge_dim=3), 8)) > 0

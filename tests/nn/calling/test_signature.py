import pytest
import torch_geometric.nn as pyg
from torch import nn

from gnnak import uplift
from gnnak.nn.calling.signature import (
    argument_names,
    edge_arguments,
    edge_widths,
    further_arguments,
    graph_argument,
    keywords,
    node_widths,
    refusal,
)
from gnnak.nn.uplifted_conv import LazyUpliftedConv, UpliftedConv
from tests.nn.users_convs import ConcatConv, RawWeightConv

SEQUENCE = pyg.Sequential("x, edge_index", [(pyg.GCNConv(8, 5), "x, edge_index -> x")])
RENAMED = pyg.Sequential("h, adj, edge_attr, pos", [(nn.Linear(8, 5), "h -> h")])


def test_argument_names_reads_signatures_and_those_of_pyg_sequential():
    assert argument_names(pyg.SAGEConv(8, 5)) == ("x", "edge_index", "size")
    assert argument_names(SEQUENCE) == ("x", "edge_index")


def test_argument_names_of_an_uplifted_conv_are_those_of_the_conv():
    known = uplift(pyg.SAGEConv(8, 5), num_hops=1)
    assert isinstance(known, UpliftedConv)
    assert argument_names(known) == ("x", "edge_index", "size")
    lazy = uplift(pyg.LGConv(), num_hops=1)
    assert isinstance(lazy, LazyUpliftedConv)
    assert argument_names(lazy) == ("x", "edge_index", "edge_weight")


@pytest.mark.parametrize(
    ("gnn", "wanted"),
    [
        (pyg.SAGEConv(8, 5), {}),
        (pyg.GCNConv(8, 5), {"edge_weight": True}),
        (pyg.GIN(8, 5, 2), {"edge_attr": True, "edge_weight": True}),
        (pyg.GPSConv(8, None), {"edge_attr": False, "edge_weight": False}),
        (SEQUENCE, {}),
    ],
)
def test_edge_arguments_are_the_named_ones_or_all_for_kwargs(gnn, wanted):
    assert edge_arguments(gnn) == wanted


@pytest.mark.parametrize(
    ("gnn", "wanted"),
    [
        (pyg.GCNConv(8, 5), {}),
        (pyg.SAGEConv(8, 5), {"size": False}),
        (pyg.GCN2Conv(8, 0.1), {"x_0": True}),
        (pyg.RGCNConv(8, 5, 2), {"edge_type": False}),
        (pyg.GPSConv(8, None), {}),
        (SEQUENCE, {}),
        (RENAMED, {"pos": True}),
    ],
)
def test_further_arguments_are_those_besides_states_edges_and_attributes(gnn, wanted):
    assert further_arguments(gnn) == wanted


@pytest.mark.parametrize(
    ("gnn", "graph", "names"),
    [
        (pyg.GCNConv(8, 5), "edge_index", None),
        (pyg.GCN2Conv(8, 0.1), "edge_index", ("x", "edge_index")),
        (pyg.PointTransformerConv(8, 5), "edge_index", ("x", "edge_index")),
        (RENAMED, "adj", None),
        (pyg.DeepGCNLayer(), "edge_index", None),
        (nn.ReLU(), None, None),
    ],
)
def test_graph_argument_and_keywords_find_the_edges(gnn, graph, names):
    assert graph_argument(gnn) == graph
    assert keywords(gnn) == names


@pytest.mark.parametrize(
    ("gnn", "wanted"),
    [
        (pyg.GCNConv(8, 5), None),
        (pyg.SuperGATConv(8, 5), None),
        (pyg.HGTConv(8, 8, (["a"], [("a", "to", "a")])), "heterogeneous graphs"),
        (pyg.HypergraphConv(8, 8), "works on hypergraphs"),
        (pyg.SignedConv(8, 8, True), "reads two graphs"),
        (nn.ReLU(), r"takes no edge_index"),
    ],
)
def test_refusal_says_why_a_module_cannot_be_uplifted(gnn, wanted):
    found = refusal(gnn)
    assert found is None if wanted is None else wanted in found


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

import pytest
import torch_geometric.nn as pyg
from torch import nn

from gnnak import uplift
from gnnak.nn.calling.signature import (
    argument_names,
    edge_arguments,
    further_arguments,
    graph_argument,
    keywords,
    refusal,
)
from gnnak.nn.uplifted_conv import LazyUpliftedConv, UpliftedConv

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

import pytest
import torch_geometric.nn as pyg
from torch import nn

from gnnak.nn.calling.signature import (
    argument_names,
    edge_arguments,
    unsupported_arguments,
)

SEQUENCE = pyg.Sequential("x, edge_index", [(pyg.GCNConv(8, 5), "x, edge_index -> x")])
RENAMED = pyg.Sequential("h, adj, edge_attr, pos", [(nn.Linear(8, 5), "h -> h")])


def test_argument_names_reads_signatures_and_those_of_pyg_sequential():
    assert argument_names(pyg.SAGEConv(8, 5)) == ("x", "edge_index", "size")
    assert argument_names(SEQUENCE) == ("x", "edge_index")


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
    ("gnn", "required", "all_of_them"),
    [
        (pyg.GCNConv(8, 5), [], []),
        (pyg.SAGEConv(8, 5), [], ["size"]),
        (pyg.GCN2Conv(8, 0.1), ["x_0"], ["x_0"]),
        (pyg.RGCNConv(8, 5, 2), [], ["edge_type"]),
        (pyg.GPSConv(8, None), [], []),
        (SEQUENCE, [], []),
        (RENAMED, ["pos"], ["pos"]),
    ],
)
def test_unsupported_arguments_are_those_never_passed_to_a_base_gnn(
    gnn, required, all_of_them
):
    assert unsupported_arguments(gnn, required=True) == required
    assert unsupported_arguments(gnn, required=False) == all_of_them

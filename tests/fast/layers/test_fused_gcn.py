"""Fused GCN against plain PyTorch, and its kernels against values by hand."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from torch_geometric.nn import GCNConv

from gnnak.fast.kernels import plain
from gnnak.fast.layers.lift import edges_of
from gnnak.nn.base import convs
from tests.fast.layers.fused_checks import (
    WIDTH,
    assert_fused_matches_plain,
    assert_padding_is_ignored,
    is_fusable_on,
    make_layer,
    subgraphs_of,
)
from tests.strategies import graphs

LOOPS = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 2]])
"""Two edges 0 -> 1, two self loops at 1, and an edge 1 -> 2; node 3 has no edges."""


def gcn_layer(base_layers=1):
    return make_layer([convs.gcn(WIDTH) for _ in range(base_layers)])


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("base_layers", [1, 2])
@settings(max_examples=15, deadline=None)
@given(graph=graphs())
def test_fused_gcn_matches_plain_gcn(base_layers, training, graph):
    subgraphs = subgraphs_of(*graph)
    assume(subgraphs.num_copies > 1)
    assert_fused_matches_plain(gcn_layer(base_layers), subgraphs, None, training)


def test_fused_gcn_counts_parallel_edges_and_one_self_loop():
    whole = subgraphs_of(LOOPS, 4)
    edges, h = (
        edges_of(whole, None),
        torch.randn(whole.num_copies, 2, dtype=torch.double),
    )
    scale = plain.gcn_scale(h, edges)
    out = plain.gcn_sum(h, scale, None, edges.source, edges.by_target)
    for root in range(4):
        copies = whole.subgraph == root
        wanted = GCNConv(2, 2, bias=False).double()
        torch.nn.init.eye_(wanted.lin.weight)
        inside = copies[whole.edge_index[0]]
        edge_index = whole.edge_index[:, inside] - copies.nonzero()[0]
        torch.testing.assert_close(out[copies], wanted(h[copies], edge_index))


@pytest.mark.parametrize("name", ["gcn-ak", "gcn-ak+", "gcn-ak+-s"])
def test_fused_gcn_ignores_padding(name):
    assert_padding_is_ignored(name)


@pytest.mark.parametrize(
    "options",
    [
        {"improved": True},
        {"normalize": False},
        {"add_self_loops": False},
        {"aggr": "mean"},
        {"flow": "target_to_source"},
    ],
)
def test_gcn_with_other_options_is_not_fused(options):
    subgraphs = subgraphs_of(LOOPS, 4)
    assert not is_fusable_on(
        make_layer([GCNConv(WIDTH, WIDTH, **options)]), subgraphs, None
    )
    assert is_fusable_on(
        make_layer([GCNConv(WIDTH, WIDTH, bias=False)]), subgraphs, None
    )


def test_gcn_with_edge_weights_is_not_fused():
    subgraphs, weights = subgraphs_of(LOOPS, 4), torch.rand(5, dtype=torch.double)
    assert not is_fusable_on(gcn_layer(), subgraphs, weights)


def test_gine_without_edge_states_is_not_fused():
    subgraphs, layer = subgraphs_of(LOOPS, 4), make_layer([convs.gine(WIDTH)])
    assert not is_fusable_on(layer, subgraphs, None)
    assert is_fusable_on(layer, subgraphs, torch.rand(5, WIDTH, dtype=torch.double))


def test_gcn_kernels_return_values_computed_by_hand():
    """Two edges 0 -> 1 and a self loop at 1: with GCN's self loops, degrees 1 and 3."""
    subgraphs = subgraphs_of(torch.tensor([[0, 0, 1], [1, 1, 1]]), 2)
    edges = edges_of(subgraphs, None)
    assert subgraphs.node.tolist() == [0, 0, 1]
    h = torch.tensor([[6.0], [5.0], [3.0]])
    scale = plain.gcn_scale(h, edges)
    third = 1 / math.sqrt(3)
    torch.testing.assert_close(scale, torch.tensor([1, 1, third]))
    bias = torch.tensor([10.0])
    out = plain.gcn_sum(h, scale, bias, edges.source, edges.by_target)
    torch.testing.assert_close(out[:, 0], torch.tensor([16, 15, 11 + 10 * third]))
    back = plain.gcn_sum(h, scale, None, edges.target, edges.by_source)
    torch.testing.assert_close(back[:, 0], torch.tensor([6, 5 + 6 * third, 1]))

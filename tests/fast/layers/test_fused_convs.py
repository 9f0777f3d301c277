"""Fused GCN and PNA* against plain PyTorch; their kernels against values by hand."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from torch_geometric.nn import GCNConv

from gnnak import PUBLISHED, EgoNets
from gnnak.backend import use_backend
from gnnak.fast.kernels import plain
from gnnak.fast.layers.parts import edges_of
from gnnak.nn import PNAStarConv
from gnnak.nn.base.convs import gcn, gine
from gnnak.subgraphs.groups import Groups, group
from tests.fast.backends import (
    assert_fused_equals_plain,
    fused_everywhere,
    num_fused_layers,
)
from tests.fast.layers.fused_layers import (
    CHANNELS,
    HOPS,
    assert_padding_is_ignored,
    is_fusable_on,
    make_layer,
)
from tests.strategies import graphs

WIDTH = CHANNELS + HOPS
LOOPS = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 2]])
"""Two edges 0 -> 1, two self loops at 1, and an edge 1 -> 2; node 3 has no edges."""


CONVS = {
    "gcn": gcn,
    "gine": gine,
    "pna*": lambda width: PNAStarConv(width, width, 3),
    "pna* without edge states": lambda width: PNAStarConv(width, 0, 3),
}


def layer_around(conv, convs=1):
    return make_layer(convs, conv=conv, options=PUBLISHED)


def edge_states(subgraphs):
    return torch.randn(subgraphs.num_edges, WIDTH, dtype=torch.double)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("convs", [1, 2])
@pytest.mark.parametrize("name", ["gcn", "pna*", "pna* without edge states"])
@settings(max_examples=15, deadline=None)
@given(graph=graphs())
def test_fused_conv_matches_plain_conv(name, convs, training, graph):
    subgraphs, used = EgoNets(2)(*graph), []
    assume(subgraphs.num_copies > 1)
    assume(name == "gcn" or subgraphs.num_edge_copies > 1)
    layer = layer_around(CONVS[name], convs).train(training)
    given = torch.randn(subgraphs.num_nodes, CHANNELS).double(), subgraphs
    given += (edge_states(subgraphs),) if name == "pna*" else ()
    with use_backend(fused_everywhere(used)):
        assert_fused_equals_plain(layer, *given, close=1e-9)
    assert num_fused_layers(used) == 1


@pytest.mark.parametrize("suffix", ["-ak", "-ak+", "-ak+-s"])
@pytest.mark.parametrize("base", ["gcn", "pna*"])
def test_fused_convs_ignore_padding(base, suffix):
    assert_padding_is_ignored(base + suffix)


def test_fused_gcn_counts_parallel_edges_and_one_self_loop():
    whole = EgoNets(2)(LOOPS, 4)
    edges, h = edges_of(whole, None), torch.randn(whole.num_copies, 2).double()
    scale = plain.gcn_scale(h, edges)
    out = plain.gcn_sum(h, scale, None, edges.source, edges.by_target)
    for root in range(4):
        copies = whole.subgraph == root
        wanted = GCNConv(2, 2, bias=False).double()
        torch.nn.init.eye_(wanted.lin.weight)
        inside = copies[whole.edge_index[0]]
        edge_index = whole.edge_index[:, inside] - copies.nonzero()[0]
        torch.testing.assert_close(out[copies], wanted(h[copies], edge_index))


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
    subgraphs = EgoNets(2)(LOOPS, 4)
    for changed, fused in (options, False), ({"bias": False}, True):
        layer = layer_around(lambda w, changed=changed: GCNConv(w, w, **changed))
        assert is_fusable_on(layer, subgraphs, None) == fused


@pytest.mark.parametrize(
    ("name", "edge_channels", "fused"),
    [("gcn", 1, False), ("gcn", 0, True), ("gine", 0, False), ("gine", WIDTH, True)],
)
def test_convs_with_edge_states_of_another_kind_are_not_fused(
    name, edge_channels, fused
):
    states = torch.rand(5, edge_channels).double() if edge_channels else None
    states = states[:, 0] if edge_channels == 1 else states
    subgraphs = EgoNets(2)(LOOPS, 4)
    assert is_fusable_on(layer_around(CONVS[name]), subgraphs, states) == fused


def test_gcn_kernels_return_values_computed_by_hand():
    """Two edges 0 -> 1 and a self loop at 1: with GCN's self loops, degrees 1 and 3."""
    subgraphs = EgoNets(2)(torch.tensor([[0, 0, 1], [1, 1, 1]]), 2)
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


@pytest.mark.parametrize("num_edges", [0, 1])
def test_pna_star_on_fewer_than_two_edge_copies_is_not_fused(num_edges):
    edge_index = torch.tensor([[0], [1]])[:, :num_edges]
    subgraphs = EgoNets(2)(edge_index, 3)
    assert subgraphs.num_edge_copies == num_edges
    layer = layer_around(CONVS["pna*"])
    assert not is_fusable_on(layer, subgraphs, edge_states(subgraphs))


def test_pna_star_with_another_update_network_is_not_fused():
    layer, subgraphs = layer_around(CONVS["pna*"]), EgoNets(2)(LOOPS, 4)
    assert is_fusable_on(layer, subgraphs, edge_states(subgraphs))
    layer.gnn.convs[0].update = torch.nn.Linear(6 * WIDTH, WIDTH).double()
    assert not is_fusable_on(layer, subgraphs, edge_states(subgraphs))


def test_pna_pool_returns_values_computed_by_hand():
    """Groups of two rows, no row and one row; the fourth row is padding."""
    message = torch.tensor([[1.0], [5.0], [-3.0], [100.0]])
    pooled = plain.pna_pool(message, Groups(torch.tensor([0, 2, 2, 3])))
    least = 1e-5**0.5
    wanted = [[3, 1, 5, (4 + 1e-5) ** 0.5], [0, 0, 0, least], [-3, -3, -3, least]]
    torch.testing.assert_close(pooled, torch.tensor(wanted))


def test_pna_pool_splits_the_gradient_of_ties_as_pytorch_does():
    """Minimum and maximum occur in several rows of a group; the last row is padding."""
    message = torch.tensor([[2.0, 1], [2, 3], [2, 3], [4, 4], [5, 4], [9, 9]]).double()
    key = torch.tensor([0, 0, 0, 2, 2])
    groups, rows = group(key, 4, in_order=True), message[:5].requires_grad_()
    at, zero = key[:, None].expand_as(rows), torch.zeros(4, 2, dtype=torch.double)
    low, high = (
        zero.scatter_reduce(0, at, rows, which, include_self=False)
        for which in ("amin", "amax")
    )
    count = torch.tensor([3, 1, 2, 1])[:, None]
    mean = zero.index_add(0, key, rows) / count
    square = zero.index_add(0, key, rows * rows) / count
    wanted = torch.cat([mean, low, high, (square - mean**2 + 1e-5).sqrt()], dim=1)
    pooled = plain.pna_pool(message, groups)
    torch.testing.assert_close(pooled, wanted)
    weights = torch.randn_like(wanted)
    (grad,) = torch.autograd.grad((wanted * weights).sum(), rows)
    got = plain.pna_pool_backward(weights, message.detach(), pooled, groups)
    torch.testing.assert_close(got[:5], grad)
    assert not got[5:].any()

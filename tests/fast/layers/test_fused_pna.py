"""Fused PNA* against plain PyTorch, and its pooling against values by hand."""

import pytest
import torch
from hypothesis import assume, given, settings

from gnnak.fast.kernels import plain
from gnnak.nn import PNAStarConv
from gnnak.subgraphs.groups import Groups, group
from tests.fast.layers.fused_checks import (
    WIDTH,
    assert_fused_matches_plain,
    assert_padding_is_ignored,
    is_fusable_on,
    make_layer,
    subgraphs_of,
)
from tests.strategies import graphs

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def pna_layer(base_layers=1, edge_channels=WIDTH, max_degree=3):
    convs = [PNAStarConv(WIDTH, edge_channels, max_degree) for _ in range(base_layers)]
    return make_layer(convs)


def edge_states(subgraphs):
    return torch.randn(subgraphs.num_edges, WIDTH, dtype=torch.double)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("base_layers", [1, 2])
@settings(max_examples=15, deadline=None)
@given(graph=graphs())
def test_fused_pna_star_matches_plain_pna_star(base_layers, training, graph):
    subgraphs = subgraphs_of(*graph)
    assume(min(subgraphs.num_copies, subgraphs.num_edge_copies) > 1)
    edge_attr = edge_states(subgraphs)
    assert_fused_matches_plain(pna_layer(base_layers), subgraphs, edge_attr, training)


@settings(max_examples=15, deadline=None)
@given(graph=graphs())
def test_fused_pna_star_matches_plain_without_edge_states(graph):
    subgraphs = subgraphs_of(*graph)
    assume(min(subgraphs.num_copies, subgraphs.num_edge_copies) > 1)
    assert_fused_matches_plain(
        pna_layer(edge_channels=0), subgraphs, None, training=True
    )


@pytest.mark.parametrize("name", ["pna*-ak", "pna*-ak+", "pna*-ak+-s"])
def test_fused_pna_star_ignores_padding(name):
    assert_padding_is_ignored(name)


@pytest.mark.parametrize("num_edges", [0, 1])
def test_pna_star_on_fewer_than_two_edge_copies_is_not_fused(num_edges):
    edge_index = torch.tensor([[0], [1]])[:, :num_edges]
    subgraphs = subgraphs_of(edge_index, 3)
    assert subgraphs.num_edge_copies == num_edges
    assert not is_fusable_on(pna_layer(), subgraphs, edge_states(subgraphs))


def test_pna_star_with_another_update_network_is_not_fused():
    layer, subgraphs = pna_layer(), subgraphs_of(PATH, 3)
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

"""Layers with more encodings of pairs (root, node) than the distance."""

import copy

import pytest
import torch

from gnnak import EgoNets
from gnnak.errors import SubgraphError
from gnnak.fast.layers.weights import encoding_rows
from gnnak.optional import interprets_triton
from gnnak.typing import LAYER_PAIRS
from tests.fast.backends import assert_fused_equals_plain, num_fused_layers, outcome
from tests.fast.layers.fused_layers import (
    assert_padding_is_ignored,
    inputs,
    make_layer,
    random_graph,
)
from tests.models.zoo import molecule_batch, small_network

PAIRS = pytest.mark.parametrize(
    "pairs", [("distance", "rrwp"), ("distance-counts",)], ids="+".join
)


@pytest.mark.skipif(
    interprets_triton(), reason="Triton's interpreter is slow, and runs padded batches"
)
@pytest.mark.parametrize("training", [True, False])
@PAIRS
@pytest.mark.parametrize("name", ["gin-ak+", "gcn-ak+", "pna*-ak+", "gin-ak+-s"])
def test_networks_with_pairs_match_plain(fused_operations, name, pairs, training):
    network = small_network(name, base_layers=2, pairs=pairs).train(training)
    assert_fused_equals_plain(network, molecule_batch(), close=1e-9, seed=0)
    assert num_fused_layers(fused_operations) == 2


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", ["gin-ak+", "gin-ak+-s"])
def test_networks_with_pairs_ignore_padding(name, recompute):
    if interprets_triton() and (name, recompute) != ("gin-ak+", False):
        pytest.skip("Triton's interpreter is slow; plain PyTorch runs all networks")
    assert_padding_is_ignored(name, recompute, pairs=LAYER_PAIRS, gate_centroid=True)


def test_layers_share_coefficients_that_copies_of_the_subgraphs_do_not_have():
    layers = [make_layer(pairs=("distance", "rrwp")) for _ in range(2)]
    _, subgraphs, _ = inputs(*random_graph())
    found = [encoding_rows(layer, subgraphs, torch.double) for layer in layers]
    assert found[0] is found[1]
    of_copy = encoding_rows(layers[0], copy.deepcopy(subgraphs), torch.double)
    assert of_copy is not found[0]
    assert torch.equal(of_copy, found[0])
    assert encoding_rows(layers[0], subgraphs, torch.bfloat16).dtype == torch.bfloat16


def test_coefficients_are_a_one_hot_distance_and_the_other_encodings():
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    _, subgraphs, _ = inputs(path, 3, num_hops=1)
    distance = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
    hops = [distance[hop] for hop in (0, 1, 1, 0, 1, 1, 0)]
    resistance = [[0], [1], [1], [0], [1], [1], [0]]
    for pairs, first in (
        (("distance", "resistance"), hops),
        (("resistance",), [[1]] * 7),
    ):
        layer = make_layer(pairs=pairs)
        zeros = [0] * (7 - len(first[0]))
        parts = zip(first, resistance, strict=True)
        wanted = [one + other + zeros for one, other in parts]
        found = encoding_rows(layer, subgraphs, torch.double)
        torch.testing.assert_close(found, torch.tensor(wanted).double())


@pytest.mark.parametrize("fused", [True, False])
def test_subgraphs_without_the_encodings_raise(fused_operations, fused):
    edge_index, nodes = random_graph()
    x, _, edge_attr = inputs(edge_index, nodes)
    subgraphs = EgoNets(2)(edge_index, nodes)
    layer = make_layer(pairs=("distance", "rrwp"))
    with pytest.raises(SubgraphError, match="which the subgraphs do not have"):
        outcome(layer, x, subgraphs, edge_attr, fused=fused)


UNFUSED = {
    "embeddings that are added": {"hop": "add"},
    "more distances than a small table has": {"max_hops": 200},
}
"""By name, the options of `make_layer`."""


@pytest.mark.parametrize("name", UNFUSED)
def test_layers_with_pairs_are_not_fused_with(fused_operations, name):
    options = UNFUSED[name]
    layer = make_layer(pairs=LAYER_PAIRS, **options)
    given = inputs(*random_graph(), hop_channels=0 if "hop" in options else 3)
    assert_fused_equals_plain(layer, *given, close=1e-9)
    assert num_fused_layers(fused_operations) == 0

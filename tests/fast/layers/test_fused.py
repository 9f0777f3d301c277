"""Fused layers and networks against plain PyTorch, on plain kernels."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gnnak import LayerOptions, SubgraphDrop
from gnnak.subgraphs import extract
from gnnak.testing import small_graphs
from gnnak.typing import LAYER_PAIRS
from tests.fast.backends import assert_fused_equals_plain, num_fused_layers, path
from tests.fast.kernels.kernel_inputs import assert_same
from tests.fast.layers.fused_layers import (
    LAYERS,
    PAIR_LAYERS,
    assert_padding_is_ignored,
    extractor,
    hops_of,
    inputs,
    make_layer,
    random_graph,
    randomize,
    state,
)
from tests.models.zoo import molecule_batch, small_network
from tests.strategies import graphs

TRAINING = pytest.mark.parametrize("training", [True, False])
NETWORKS = ["gin-ak", "gin-ak+", "gin-ak+-s"]


def sample(subgraphs, edge_index):
    generator = torch.Generator().manual_seed(1)
    return SubgraphDrop("random", 2)(subgraphs, edge_index, generator)


@TRAINING
@pytest.mark.parametrize("kind", ["all", "sampled", "some roots"])
@pytest.mark.parametrize("name", LAYERS | PAIR_LAYERS)
def test_fused_layer_matches_plain(fused_operations, name, kind, training):
    options, (edge_index, nodes) = (LAYERS | PAIR_LAYERS)[name], random_graph()
    x, subgraphs, edge_attr = inputs(edge_index, nodes, **hops_of(options))
    if kind == "sampled":
        subgraphs = sample(subgraphs, edge_index)
    if kind == "some roots":
        roots = torch.tensor([7, 2, 11, 3])
        subgraphs = extract(extractor(), edge_index, nodes, roots=roots)
    layer = make_layer(**options).train(training)
    assert_fused_equals_plain(layer, x, subgraphs, edge_attr, close=1e-9)
    assert num_fused_layers(fused_operations) == 1


@pytest.mark.parametrize("part", ["stack", "transforms", "subgraph", "context"])
def test_fused_layer_matches_plain_with_norms_in_evaluation(fused_operations, part):
    options = LayerOptions(mlp_layers=2, gate_centroid=True)
    layer = make_layer(convs=2, options=options).train()
    parts = {"stack": layer.gnn, "transforms": layer.transforms}
    parts |= dict(layer.transforms.items())
    parts[part].eval()
    edge_index, nodes = random_graph()
    assert_fused_equals_plain(layer, *inputs(edge_index, nodes), close=1e-9)
    assert num_fused_layers(fused_operations) == 1


@TRAINING
@pytest.mark.parametrize("pairs", [("distance",), LAYER_PAIRS], ids=len)
@pytest.mark.parametrize("name", list(small_graphs()))
def test_fused_layer_matches_plain_on_corner_cases(
    fused_operations, name, pairs, training
):
    graph = small_graphs()[name]
    x, subgraphs, edge_attr = inputs(graph.edge_index, graph.num_nodes)
    layer = make_layer(convs=2, pairs=pairs).train(training)
    assert_fused_equals_plain(layer, x, subgraphs, edge_attr, close=1e-9)
    assert bool(num_fused_layers(fused_operations)) == (subgraphs.num_copies > 1)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    graph=graphs(max_nodes=7),
    pairs=st.lists(st.sampled_from(LAYER_PAIRS), min_size=1, unique=True),
)
def test_fused_layer_matches_plain_on_any_graph(fused_operations, graph, pairs):
    edge_index, nodes = graph
    x, subgraphs, edge_attr = inputs(edge_index, nodes)
    options = LayerOptions(mlp_layers=1, gate_centroid=True)
    layer = make_layer(convs=2, options=options, pairs=pairs)
    for training in (True, False):
        given = (x, subgraphs, edge_attr)
        assert_fused_equals_plain(layer.train(training), *given, close=1e-9)
    if nodes:
        sampled = sample(subgraphs, edge_index)
        assert_fused_equals_plain(layer.train(), x, sampled, edge_attr, close=1e-9)


def test_fused_layer_matches_plain_at_the_largest_hop(fused_operations):
    path = torch.arange(5).unfold(0, 2, 1).t()
    x, subgraphs, edge_attr = inputs(path.contiguous(), 5, num_hops=3)
    assert subgraphs.hop.max() == 3
    assert_fused_equals_plain(make_layer(), x, subgraphs, edge_attr, close=1e-9)


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("max_copies", [1, 20])
def test_fused_layer_matches_plain_in_slices(fused_operations, reduce, max_copies):
    x, subgraphs, edge_attr = inputs(*random_graph())
    layer = make_layer(reduce=reduce).eval()
    with path(fused=False):
        wanted = layer(x, subgraphs, edge_attr)
    layer.max_copies = max_copies
    assert_same(layer(x, subgraphs, edge_attr), wanted)
    assert num_fused_layers(fused_operations) > 1


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_fused_network_matches_plain(fused_operations, name, recompute):
    batch, found = molecule_batch(), []
    for fused in (True, False):
        network = small_network(name, base_layers=2).train()
        randomize_same(network)
        network.save_memory(recompute=recompute and fused)
        with path(fused):
            for _ in range(2):
                out = network(batch, generator=torch.Generator().manual_seed(1))
                (out * torch.linspace(-1, 2, out.numel()).view_as(out)).sum().backward()
        found.append({"out": out.detach()} | state(network))
    assert_same(*found)
    assert num_fused_layers(fused_operations) == (8 if recompute else 4)


@pytest.mark.parametrize("fused", [False, True])
def test_estimates_at_dropped_roots_are_fused(fused_operations, fused):
    network = small_network("gin-ak+-s").train()
    with path(fused):
        network(molecule_batch(), generator=torch.Generator().manual_seed(1))
    assert ("fill_dropped" in fused_operations) == fused


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_fused_network_ignores_padding(name, recompute):
    assert_padding_is_ignored(name, recompute)


def randomize_same(module):
    """Set the same random parameters and statistics in every module of one shape."""
    torch.manual_seed(5)
    randomize(module)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", ["gin", "gin-ak+", "gin-ak+-s"])
def test_recomputed_layers_use_the_same_backend_again(fused_operations, name, fused):
    networks = [small_network(name).train() for _ in range(2)]
    networks[0].save_memory(recompute=True)
    for network in networks:
        with path(fused):
            out = network(molecule_batch(), generator=torch.Generator().manual_seed(1))
        with path(not fused):
            out.square().sum().backward()
    assert_same(*map(state, networks))

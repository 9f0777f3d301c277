"""The fused path against the general one, on plain kernels."""

from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from gnnak import EgoNets, LayerOptions, SubgraphDrop
from gnnak.fast.kernels import plain as plain_kernels
from gnnak.graphs.real import RealCounts
from gnnak.testing import small_graphs
from tests.fast.backends import layers_in, path
from tests.fast.kernels.kernel_inputs import assert_same
from tests.fast.layers.fused_layers import (
    LAYERS,
    both,
    hops_of,
    inputs,
    make_layer,
    random_graph,
    randomize,
    state,
)
from tests.loading.test_padding import padded_and_plain
from tests.models.zoo import molecule_batch, small_network
from tests.strategies import graphs

TRAINING = pytest.mark.parametrize("training", [True, False])
NETWORKS = ["gin-ak", "gin-ak+", "gin-ak+-s"]


def drawn(subgraphs, edge_index):
    generator = torch.Generator().manual_seed(1)
    return SubgraphDrop("random", 2)(subgraphs, edge_index, generator)


@TRAINING
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_fused_layer_equals_the_general_one(fuses, name, sampled, training):
    options, (edge_index, nodes) = LAYERS[name], random_graph()
    layer = make_layer(**options).train(training)
    x, subgraphs, edge_attr = inputs(edge_index, nodes, **hops_of(options))
    if sampled:
        subgraphs = drawn(subgraphs, edge_index)
    assert_same(*both(layer, x, subgraphs, edge_attr))
    assert layers_in(fuses) == 1


@pytest.mark.parametrize("frozen", ["stack", "transforms", "subgraph", "context"])
def test_fused_layer_equals_the_general_one_with_some_norms_frozen(fuses, frozen):
    layer = make_layer(
        convs=2, options=LayerOptions(mlp_layers=2, gate_centroid=True)
    ).train()
    parts = {"stack": layer.gnn, "transforms": layer.transforms}
    parts |= dict(layer.transforms.items())
    parts[frozen].eval()
    edge_index, nodes = random_graph()
    assert_same(*both(layer, *inputs(edge_index, nodes)))
    assert layers_in(fuses) == 1


@TRAINING
@pytest.mark.parametrize("name", list(small_graphs()))
def test_fused_layer_equals_the_general_one_on_corner_cases(fuses, name, training):
    graph = small_graphs()[name]
    x, subgraphs, edge_attr = inputs(graph.edge_index, graph.num_nodes)
    layer = make_layer(convs=2).train(training)
    assert_same(*both(layer, x, subgraphs, edge_attr))
    assert bool(layers_in(fuses)) == (subgraphs.num_copies > 1)


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(graph=graphs(max_nodes=7))
def test_fused_layer_equals_the_general_one_on_any_graph(fuses, graph):
    edge_index, nodes = graph
    x, subgraphs, edge_attr = inputs(edge_index, nodes)
    layer = make_layer(convs=2)
    for training in (True, False):
        assert_same(*both(layer.train(training), x, subgraphs, edge_attr))
    if nodes:
        sampled = drawn(subgraphs, edge_index)
        assert_same(*both(layer.train(), x, sampled, edge_attr))


def test_fused_layer_equals_the_general_one_far_from_the_root(fuses):
    path = torch.arange(5).unfold(0, 2, 1).t()
    x, subgraphs, edge_attr = inputs(path.contiguous(), 5, num_hops=3)
    assert subgraphs.hop.max() == 3
    assert_same(*both(make_layer(), x, subgraphs, edge_attr))


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("max_copies", [1, 20])
def test_fused_layer_equals_the_general_one_in_slices(fuses, reduce, max_copies):
    x, subgraphs, edge_attr = inputs(*random_graph())
    layer = make_layer(reduce=reduce).eval()
    with path(fused=False):
        wanted = layer(x, subgraphs, edge_attr)
    layer.max_copies = max_copies
    assert_same(layer(x, subgraphs, edge_attr), wanted)
    assert layers_in(fuses) > 1


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_fused_network_equals_the_general_one(fuses, name, recompute):
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
    assert layers_in(fuses) == (8 if recompute else 4)


@pytest.mark.parametrize("fused", [False, True])
def test_estimates_at_dropped_roots_are_fused_where_all_is(fuses, fused):
    network = small_network("gin-ak+-s").train()
    with path(fused):
        network(molecule_batch(), generator=torch.Generator().manual_seed(1))
    assert ("fill_dropped" in fuses) == fused


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_fused_network_does_not_see_padding(fuses, name, recompute):
    items, plain_items = padded_and_plain(name.endswith("-s"), EgoNets(2))
    blind, plain = small_network(name).train(), small_network(name).train()
    for network in (blind, plain):
        randomize_same(network)
    blind.save_memory(recompute=recompute)
    for item, alone in zip(items, plain_items, strict=True):
        got = blind(item.batch, subgraphs=item.subgraphs)
        got = got[: item.batch.real.graphs]
        with path(fused=False):
            wanted = plain(alone.batch, subgraphs=alone.subgraphs)
        assert_same(got, wanted)
        weights = torch.randn_like(wanted)
        (got * weights).sum().backward()
        (wanted * weights).sum().backward()
    assert_same(state(blind), state(plain))
    assert fuses


def randomize_same(module):
    torch.manual_seed(5)
    randomize(module)


def test_statistics_before_pools_are_of_real_rows(fuses, monkeypatch):
    seen = []
    monkeypatch.setattr(plain_kernels, "moments_of", lambda _, real: seen.append(real))
    x, subgraphs, edge_attr = inputs(*random_graph(12, 30))
    real = subgraphs.num_copies - 1
    counts = torch.tensor([1, 12, 30, 12, real, subgraphs.num_edge_copies])
    padded = replace(subgraphs, real=RealCounts(counts))
    make_layer()(x, padded, edge_attr)
    assert len(seen) == 1
    assert int(seen[0]) == real

"""The fused path against the general one, on plain kernels."""

import copy
import gc
import weakref
from collections import Counter

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from gnnak import Departures, EgoNets, SubgraphDrop
from gnnak.nn import encodings
from gnnak.nn.fused.lift import lift
from gnnak.nn.fused.norm import norm_relu_linears
from gnnak.nn.fused.rows import Rows, may_write_over
from gnnak.nn.kernels import plain as plain_kernels
from gnnak.nn.norm import BatchNorm
from gnnak.nn.padding import real_rows
from gnnak.testing import small_graphs
from tests.models.zoo import molecule_batch, small_network
from tests.nn.fused_layers import (
    LAYERS,
    both,
    inputs,
    make_layer,
    random_graph,
    randomize,
    set_fused,
    state,
)
from tests.nn.kernel_inputs import assert_same
from tests.strategies import graphs
from tests.training.batches.test_padding import padded_and_plain

TRAINING = pytest.mark.parametrize("training", [True, False])
NETWORKS = ["gin-ak", "gin-ak+", "gin-ak+-s"]


def hops_of(options):
    return {k: v for k, v in options.items() if k == "hop_channels"}


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
    assert fuses == ["GNNAK"]


@pytest.mark.parametrize("frozen", ["stack", "transforms", "subgraph", "context"])
def test_fused_layer_equals_the_general_one_with_some_norms_frozen(fuses, frozen):
    layer = make_layer(convs=2, departures=Departures(2, True)).train()
    parts = {"stack": layer.gnn, "transforms": layer.transforms}
    parts |= dict(layer.transforms.items())
    parts[frozen].eval()
    edge_index, nodes = random_graph()
    assert_same(*both(layer, *inputs(edge_index, nodes)))
    assert fuses == ["GNNAK"]


@TRAINING
@pytest.mark.parametrize("name", list(small_graphs()))
def test_fused_layer_equals_the_general_one_on_corner_cases(fuses, name, training):
    graph = small_graphs()[name]
    x, subgraphs, edge_attr = inputs(graph.edge_index, graph.num_nodes)
    layer = make_layer(convs=2).train(training)
    assert_same(*both(layer, x, subgraphs, edge_attr))
    assert bool(fuses) == (subgraphs.num_copies > 1)


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
    wanted = set_fused(copy.deepcopy(layer), False)(x, subgraphs, edge_attr)
    layer.max_copies = max_copies
    assert_same(layer(x, subgraphs, edge_attr), wanted)
    assert len(fuses) > 1


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_fused_network_equals_the_general_one(fuses, name, recompute):
    batch, found = molecule_batch(), []
    for fused in (True, False):
        network = small_network(name, base_layers=2).train()
        randomize_same(network)
        network.save_memory(recompute=recompute and fused)
        network.use_fused(fused)
        for _ in range(2):
            out = network(batch, generator=torch.Generator().manual_seed(1))
            (out * torch.linspace(-1, 2, out.numel()).view_as(out)).sum().backward()
        found.append({"out": out.detach()} | state(network))
    assert_same(*found)
    assert len(fuses) == (8 if recompute else 4)


@pytest.mark.parametrize("fused", [False, True])
def test_shares_of_kept_roots_are_fused_where_all_is(fuses, fused, monkeypatch):
    used, fill = [], encodings.fused_fill

    def noted(values, subgraphs):
        used.append(fused)
        return fill(values, subgraphs)

    monkeypatch.setattr(encodings, "fused_fill", noted)
    network = small_network("gin-ak+-s").train()
    network.use_fused(fused)
    network(molecule_batch(), generator=torch.Generator().manual_seed(1))
    assert bool(used) == fused


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_fused_network_does_not_see_padding(fuses, name, recompute):
    items, plain_items = padded_and_plain(name.endswith("-s"), EgoNets(2))
    blind, plain = small_network(name).train(), small_network(name).train()
    for network in (blind, plain):
        randomize_same(network)
    blind.save_memory(recompute=recompute)
    plain.use_fused(False)
    for item, alone in zip(items, plain_items, strict=True):
        with real_rows(item.real.counts()):
            got = blind(item.batch, subgraphs=item.subgraphs)
        got = got[: item.real.graphs]
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


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("gin-ak+", 2), ("gin-ak", 2), ("two convs", 5), ("two products", 2)],
)
def test_fused_layer_keeps_few_tensors_with_a_row_for_every_copy(fuses, name, wanted):
    options, (edge_index, nodes) = LAYERS[name], random_graph()
    layer = make_layer(**options).train()
    x, subgraphs, edge_attr = inputs(edge_index, nodes, **hops_of(options))
    kept = set()

    def note(tensor):
        if tensor.is_floating_point() and len(tensor) == subgraphs.num_copies:
            kept.add(tensor.untyped_storage().data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        out = layer(x.requires_grad_(), subgraphs, edge_attr)
    gc.collect()
    for tensor in [each for each in gc.get_objects() if type(each) is torch.Tensor]:
        if tensor.dim() == 2:
            note(tensor)
    assert len(kept) == wanted
    out.sum().backward()


def test_fused_layer_says_that_what_it_makes_rows_of_was_changed(fuses):
    edge_index, nodes = random_graph()
    layer = make_layer().train()
    out = layer(*inputs(edge_index, nodes))
    with torch.no_grad():
        layer.hop_table.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_gradients_are_not_written_over_copies_that_others_read():
    edge_index, nodes = random_graph()
    x, subgraphs, _ = inputs(edge_index, nodes)
    lifted = lift(x, None, subgraphs.hop, subgraphs)
    assert not may_write_over(lifted.again)
    assert not may_write_over(None)


@pytest.mark.parametrize("name", ["gin-ak+", "two products", "two convs"])
def test_fused_layer_gives_its_gradients_twice(fuses, name):
    layer, (edge_index, nodes) = make_layer(**LAYERS[name]), random_graph()
    x, subgraphs, edge_attr = inputs(edge_index, nodes)
    out, found = layer(x, subgraphs, edge_attr).square().sum(), []
    for _ in range(2):
        layer.zero_grad()
        out.backward(retain_graph=True)
        found.append({name: p.grad.clone() for name, p in layer.named_parameters()})
    assert_same(*found)


def test_products_are_made_once_more_for_all_products_of_them(fuses, monkeypatch):
    made = []
    for name in ("norm_linear", "norm_act"):
        kernel = getattr(plain_kernels, name)

        def noted(*given, kernel=kernel, name=name):
            adds = name == "norm_act" and given[-1] is not None
            made.append((name, adds))
            return kernel(*given)

        monkeypatch.setattr(plain_kernels, name, noted)
    layer = make_layer(departures=Departures(2, True))
    x, subgraphs, edge_attr = inputs(*random_graph(12, 30))
    out = layer(x, subgraphs, edge_attr)
    before = Counter(made)
    out.sum().backward()
    again = Counter(made) - before
    # States once for products, which are held, and once for gradients.
    assert again["norm_act", True] == 2
    # Those of both transforms once more; of the conv's, one reads states made anew.
    assert again["norm_linear", False] == 2


@pytest.mark.parametrize("blocks", [1, 2])
def test_states_that_are_made_once_more_are_then_let_go(fuses, blocks, monkeypatch):
    seen, norm_act = [], plain_kernels.norm_act

    def noted(h, k, relu, residual):
        made = norm_act(h, k, relu, residual)
        if residual is not None:
            # Beside products that are held for long, none are.
            assert blocks == 1 or not any(one() is not None for one in seen)
            seen.append(weakref.ref(made))
        return made

    layer = make_layer(departures=Departures(blocks, True))
    out = layer(*inputs(*random_graph(12, 30)))
    monkeypatch.setattr(plain_kernels, "norm_act", noted)
    out.sum().backward()
    assert len(seen) == blocks
    assert all(one() is None for one in seen)


def test_statistics_before_pools_are_of_real_rows(fuses, monkeypatch):
    seen = []
    monkeypatch.setattr(plain_kernels, "moments_of", lambda _, real: seen.append(real))
    x, subgraphs, edge_attr = inputs(*random_graph(12, 30))
    real = torch.tensor(subgraphs.num_copies - 1)
    with real_rows({subgraphs.num_copies: real}):
        make_layer()(x, subgraphs, edge_attr)
    assert len(seen) == 1
    assert seen[0] is real


def test_gradients_are_written_over_products_that_are_made_again():
    norms, linears = [BatchNorm(3)], [torch.nn.Linear(3, 2)]
    kept, again = (
        norm_relu_linears(norms, Rows(torch.randn(5, 3)), linears, True, remade)[0]
        for remade in (False, True)
    )
    assert not may_write_over(kept.again)
    assert may_write_over(again.again)
    assert torch.equal(again.again.make(*again.again.tensors), again.values)


def test_copies_are_lifted_once_more_for_all_gradients_and_then_let_go(
    fuses, monkeypatch
):
    seen, lift_plainly = [], plain_kernels.lift

    def noted(*given):
        lifted = lift_plainly(*given)
        seen.append(weakref.ref(lifted))
        return lifted

    monkeypatch.setattr(plain_kernels, "lift", noted)
    layer = make_layer(departures=Departures(2, True))
    x, subgraphs, edge_attr = inputs(*random_graph(12, 30))
    for wanted in (True, False):
        seen.clear()
        layer.hop_table.requires_grad_(wanted)
        out = layer(x.requires_grad_(wanted), subgraphs, edge_attr)
        out.sum().backward()
        assert (len(seen) == 2) == wanted
        assert all(one() is None for one in seen)

"""The alignment of training and evaluation, against the paper's equations in loops."""

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric import nn as pyg

from gnnak import GNNAK, PUBLISHED, EgoNets, RandomWalks, SubgraphDrop, uplift
from gnnak.models import ModelOptions, build_model
from gnnak.nn import Categorical
from gnnak.nn.encodings import context_encoding
from gnnak.sampling import sample_subgraphs
from gnnak.sampling.estimate import fill, plan_filling
from gnnak.testing import small_graphs
from tests.strategies import graphs


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def fill_in_loops(values, known, edge_index, num_nodes):
    """Layer by layer, the mean over neighbours one layer nearer to the known nodes."""
    graph = nx.Graph(edge_index.t().tolist())
    graph.add_nodes_from(range(num_nodes))
    out = {node: values[node] for node in known}
    layer = dict.fromkeys(known, 0)
    distance = 0
    while any(layer[node] == distance for node in layer):
        distance += 1
        adjacent = {u for v, d in layer.items() if d == distance - 1 for u in graph[v]}
        for node in sorted(adjacent - layer.keys()):
            near = [v for v in graph[node] if layer.get(v) == distance - 1]
            out[node] = sum(out[v] for v in near) / len(near)
            layer[node] = distance
    zero = torch.zeros_like(values[:1]).squeeze(0)
    return torch.stack([out.get(node, zero) for node in range(num_nodes)])


@settings(max_examples=200, deadline=None)
@given(graph=graphs(max_nodes=10), data=st.data())
def test_fill_equals_the_equation_in_loops(graph, data):
    edge_index, num_nodes = graph
    if not num_nodes:
        return
    known = sorted(data.draw(st.sets(st.integers(0, num_nodes - 1), min_size=1)))
    values = torch.randn(num_nodes, 3, dtype=torch.double)
    filling = plan_filling(edge_index, num_nodes, torch.tensor(known))
    filled = fill(values[known], filling, num_nodes)
    literal = fill_in_loops(values, known, edge_index, num_nodes)
    torch.testing.assert_close(filled, literal, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("extractor", [EgoNets(2), RandomWalks(3, 2)])
def test_context_is_scaled_as_the_equation_says(reduce, extractor):
    edge_index = torch.cat([ring(12), torch.tensor([[0, 3, 1], [5, 9, 1]])], dim=1)
    subs = extractor(edge_index, 12, seeded(2))
    few = SubgraphDrop("min-set-cover", 1)(subs, edge_index, seeded(3))
    assert few.num_subgraphs < 9
    emb = torch.randn(few.num_copies, 4, dtype=torch.double)
    out = context_encoding(emb, few, 12, reduce)
    roots = set(few.root.tolist())
    members = list(
        zip(subs.node.tolist(), subs.root[subs.subgraph].tolist(), strict=True)
    )
    for node in range(12):
        held = [root for v, root in members if v == node]
        rows = emb[few.node == node]
        ratio = len(held) / len([root for root in held if root in roots])
        expected = rows.mean(dim=0) if reduce == "mean" else ratio * rows.sum(dim=0)
        torch.testing.assert_close(out[node], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_layer_with_all_roots_sampled_equals_full_mode(reduce, corner_case):
    layer = GNNAK(
        pyg.GCNConv(8, 6), 4, 5, hop_channels=4, reduce=reduce, options=PUBLISHED
    )
    layer, data = layer.double().eval(), corner_case
    subs = EgoNets(2)(data.edge_index, data.num_nodes)
    every = torch.ones(data.num_nodes, dtype=torch.bool)
    few = sample_subgraphs(subs, data.edge_index, every)
    assert torch.equal(layer(data.x, few), layer(data.x, subs))


@pytest.mark.parametrize("strategy", ["random", "farthest", "min-set-cover"])
@pytest.mark.parametrize("name", list(small_graphs()))
def test_layer_on_dropped_subgraphs_is_finite_and_learns(strategy, name):
    data = small_graphs(4)[name]
    layer = GNNAK(pyg.SAGEConv(8, 6), 4, 5, hop_channels=4).double()
    subs = EgoNets(1)(data.edge_index, data.num_nodes)
    few = SubgraphDrop(strategy, 1)(subs, data.edge_index, seeded())
    x = data.x.clone().requires_grad_()
    out = layer(x, few)
    assert out.shape == (data.num_nodes, 5)
    out.square().sum().backward()
    assert out.isfinite().all()
    grads = [p.grad for p in layer.parameters()]
    assert all(grad is not None and grad.isfinite().all() for grad in grads)
    assert not data.num_nodes or (x.grad.abs().sum(dim=1) > 0).all()


@pytest.mark.parametrize("encoding", ["centroid", "subgraph", "context"])
@pytest.mark.parametrize("extractor", [EgoNets(2), RandomWalks(3, 2)])
def test_gradients_flow_through_every_estimate(encoding, extractor):
    edge_index = ring(12)
    subs = extractor(edge_index, 12, seeded(2))
    few = SubgraphDrop("min-set-cover", 1)(subs, edge_index, seeded(3))
    layer = GNNAK(
        pyg.SAGEConv(3, 2), 3, 2, hop_channels=0, encodings=(encoding,), fuse="sum"
    ).double()
    x = torch.randn(12, 3, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda values: layer(values, few), (x,))
    (grad,) = torch.autograd.grad(layer(x, few).square().sum(), x)
    assert (grad.abs().sum(dim=1) > 0).any()


def small_network(name="gin-ak+-s", **options):
    options = {"num_layers": 2, "channels": 8, "subgraphs": EgoNets(2)} | options
    return build_model(name, Categorical((1,)), None, 1, ModelOptions(**options))


def ring(size: int):
    once = torch.stack([torch.arange(size), torch.arange(1, size + 1) % size])
    return torch.cat([once, once.flip(0)], dim=1)


def test_network_drops_in_training_and_not_in_evaluation():
    net = small_network(drop=SubgraphDrop("random", 1)).double()
    full = small_network("gin-ak+").double()
    full.load_state_dict(net.state_dict())
    x, edge_index = torch.zeros(20, 1, dtype=torch.long), ring(20)
    assert torch.equal(net.eval()(x, edge_index), full.eval()(x, edge_index))
    seen = {tuple(net.train()(x, edge_index).flatten().tolist()) for _ in range(4)}
    assert len(seen) == 4


def test_network_uses_the_generator_it_is_given():
    net = small_network(drop=SubgraphDrop("random", 1)).double()
    x, edge_index = torch.zeros(20, 1, dtype=torch.long), ring(20)
    for norm in (m for m in net.modules() if isinstance(m, nn.BatchNorm1d)):
        norm.momentum = 0.0
    first, again, other = (
        net(x, edge_index, generator=seeded(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_network_drops_subgraphs_that_are_passed_to_it():
    net = small_network(drop=SubgraphDrop("random", 1)).double()
    x, edge_index = torch.zeros(20, 1, dtype=torch.long), ring(20)
    subs = EgoNets(2)(edge_index, 20)
    handed = net(x, edge_index, subgraphs=subs, generator=seeded(1))
    made = net(x, edge_index, generator=seeded(1))
    sampled = net.drop(subs, edge_index, seeded(1))
    given_ = net(x, edge_index, subgraphs=sampled)
    torch.testing.assert_close(handed, made)
    torch.testing.assert_close(handed, given_)


def test_uplift_drops_in_training_and_not_in_evaluation():
    model = pyg.GIN(4, 8, 2)
    torch.manual_seed(0)
    net = uplift(model, num_hops=1, drop=SubgraphDrop("farthest", 1)).double()
    torch.manual_seed(0)
    full = uplift(model, num_hops=1).double().eval()
    x, edge_index = torch.rand(20, 4, dtype=torch.double), ring(20)
    assert torch.equal(net.eval()(x, edge_index), full(x, edge_index))
    assert not torch.equal(net.train()(x, edge_index), full(x, edge_index))


def test_uplift_samples_once_per_pass_and_caches_the_plan(monkeypatch):
    plans, samples = [], []
    plan, sample_mask = SubgraphDrop.plan, SubgraphDrop.sample_mask
    monkeypatch.setattr(SubgraphDrop, "plan", lambda *a: plans.append(1) or plan(*a))
    monkeypatch.setattr(
        SubgraphDrop, "sample_mask", lambda *a: samples.append(1) or sample_mask(*a)
    )
    net = uplift(pyg.GIN(4, 8, 3), num_hops=1, drop=SubgraphDrop("farthest", 1))
    x, edge_index = torch.rand(20, 4), ring(20)
    for _ in range(3):
        net(x, edge_index)
    assert (len(plans), len(samples)) == (1, 3)


def test_sampled_subgraphs_move_with_all_their_tensors():
    subs = EgoNets(1)(ring(9), 9)
    few = SubgraphDrop("random", 1)(subs, ring(9), seeded())
    moved = few.to("meta")
    for value in (moved.node, moved.held, moved.covered, moved.filling.weight):
        assert value.is_meta


def test_scale_is_cached_for_each_dtype():
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    subgraphs = SubgraphDrop("random")(EgoNets(1)(edge_index, 3), edge_index)
    wanted = subgraphs.held / subgraphs.covered
    for dtype in (torch.float, torch.double):
        assert subgraphs.scale(dtype).dtype == dtype
        torch.testing.assert_close(subgraphs.scale(dtype), wanted, check_dtype=False)
        assert subgraphs.scale(dtype) is subgraphs.scale(dtype)

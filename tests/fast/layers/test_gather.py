"""Lifts, pools and estimates: values and gradients as in plain PyTorch."""

import pytest
import torch
from torch_geometric.nn import GCNConv, SAGEConv

from gnnak import GNNAK, EgoNets, SubgraphDrop
from gnnak.fast.layers.gather import fused_fill
from gnnak.graphs.named import undirected
from gnnak.nn.copies import lift, lift_edges, pool_context, pool_subgraph
from gnnak.sampling.estimate import fill
from gnnak.testing import small_graphs
from tests.fast.backends import assert_fused_equals_plain, path
from tests.fast.kernels.kernel_inputs import assert_same
from tests.sampling.test_estimate import seeded

OPERATIONS = {
    "lift": lambda x, e, z, subs: lift(x, subs),
    "lift_edges": lambda x, e, z, subs: lift_edges(e, subs),
    "pool_subgraph": lambda x, e, z, subs: pool_subgraph(z, subs, "sum"),
    "pool_subgraph, mean": lambda x, e, z, subs: pool_subgraph(z, subs, "mean"),
    "pool_context": lambda x, e, z, subs: pool_context(z, subs, len(x), "sum"),
    "pool_context, mean": lambda x, e, z, subs: pool_context(z, subs, len(x), "mean"),
}


def computed(operation, inputs, subgraphs):
    """Value, gradients, and the gradients of a function of the gradients."""
    inputs = [tensor.clone().requires_grad_() for tensor in inputs]
    out = operation(*inputs, subgraphs)
    weights = torch.linspace(-1, 2, out.numel()).view_as(out).double()
    given = {"allow_unused": True, "materialize_grads": True}
    first = torch.autograd.grad(
        (out.square() * weights).sum(), inputs, create_graph=True, **given
    )
    again = sum((gradient**3).sum() for gradient in first)
    second = torch.autograd.grad(again, inputs, **given)
    return [out.detach(), *(gradient.detach() for gradient in first), *second]


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("graph", sorted(small_graphs()))
def test_operations_on_copies_match_plain_to_second_order(
    fused_operations, name, graph
):
    data = small_graphs()[graph]
    subgraphs = EgoNets(2)(data.edge_index, data.num_nodes)
    sizes = (data.num_nodes, data.edge_index.size(1), subgraphs.num_copies)
    inputs = [torch.randn(size, 3).double() for size in sizes]
    found = computed(OPERATIONS[name], inputs, subgraphs)
    with path(fused=False):
        wanted = computed(OPERATIONS[name], inputs, subgraphs)
    assert_same(found, wanted)
    assert fused_operations == [name.partition(",")[0]]


@pytest.mark.parametrize("conv", [GCNConv, SAGEConv])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_a_layer_around_any_conv_matches_plain(fused_operations, conv, reduce):
    data = small_graphs(4)["star"]
    layer = GNNAK(conv(4, 4), 4, 4, max_hops=2, hop="add", reduce=reduce).double()
    subgraphs = EgoNets(2)(data.edge_index, data.num_nodes)
    assert_fused_equals_plain(layer, data.x, subgraphs)
    assert {"embed", "encode"} <= set(fused_operations)


def sample(name, min_coverage):
    """Return a random sample of egonets, and values of its roots."""
    graph = small_graphs()[name]
    whole = EgoNets(1)(graph.edge_index, graph.num_nodes)
    drop = SubgraphDrop("random", min_coverage)
    sampled = drop(whole, graph.edge_index, seeded())
    values = torch.randn(sampled.num_subgraphs, 3, dtype=torch.double)
    return sampled, values.requires_grad_(), graph.num_nodes


@pytest.mark.parametrize("name", sorted(small_graphs()))
@pytest.mark.parametrize("min_coverage", [1, 3])
def test_fused_fill_and_its_gradient_are_those_of_fill(name, min_coverage):
    sampled, values, nodes = sample(name, min_coverage)
    weights = torch.randn(nodes, 3, dtype=torch.double)
    found = []
    for out in (fused_fill(values, sampled), fill(values, sampled.filling, nodes)):
        found.append([out, *torch.autograd.grad((out * weights).sum(), values)])
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)


def test_fused_fill_can_be_differentiated_twice():
    sampled, values, _ = sample("star", 1)
    assert torch.autograd.gradgradcheck(lambda v: fused_fill(v, sampled), values)


def test_the_same_state_of_all_edges_is_neither_gathered_nor_grouped(fused_operations):
    subgraphs = EgoNets(1)(*undirected([(0, 1), (1, 2)], 3))
    weight = torch.randn(1, 5, dtype=torch.double, requires_grad=True)
    found = lift_edges(weight.expand(4, -1), subgraphs)
    assert fused_operations == ["lift_edges"]
    assert "edge" not in subgraphs.derived.by
    assert torch.equal(found, weight.detach()[[0] * subgraphs.num_edge_copies])
    found.sum().backward()
    assert torch.equal(weight.grad, weight.new_full((1, 5), len(found)))

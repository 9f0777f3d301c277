import pytest
import torch

from gnnak import EgoNets, SubgraphDrop
from gnnak.fast.layers.gather import fused_fill
from gnnak.sampling.estimate import fill
from gnnak.testing import small_graphs
from tests.sampling.test_estimate import seeded


@pytest.mark.parametrize("name", sorted(small_graphs()))
@pytest.mark.parametrize("min_coverage", [1, 3])
def test_fused_fill_and_its_gradient_are_those_of_fill(name, min_coverage):
    graph = small_graphs()[name]
    edge_index, num_nodes = graph.edge_index, graph.num_nodes
    whole = EgoNets(1)(edge_index, num_nodes)
    sampled = SubgraphDrop("random", min_coverage)(whole, edge_index, seeded())
    values = torch.randn(sampled.num_subgraphs, 3, dtype=torch.double)
    weights = torch.randn(num_nodes, 3, dtype=torch.double)
    found = []
    for filled in (
        lambda one: fused_fill(one, sampled),
        lambda one: fill(one, sampled.filling, num_nodes),
    ):
        given = values.clone().requires_grad_()
        out = filled(given)
        (out * weights).sum().backward()
        found.append((out.detach(), given.grad))
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)


def test_fused_fill_can_be_differentiated_twice():
    graph = small_graphs()["star"]
    whole = EgoNets(1)(graph.edge_index, graph.num_nodes)
    sampled = SubgraphDrop("random", 1)(whole, graph.edge_index, seeded())
    values = torch.randn(sampled.num_subgraphs, 3, dtype=torch.double)
    values.requires_grad_()
    assert torch.autograd.gradgradcheck(lambda v: fused_fill(v, sampled), values)

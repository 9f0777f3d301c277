import pytest
import torch
from hypothesis import given
from torch_geometric.nn import GCNConv

from gnnak.nn.base.convs import GCN
from gnnak.testing import small_graphs
from tests.strategies import graphs

PYG, OURS = GCNConv(4, 4).double(), GCN(4).double()
OURS.load_state_dict(PYG.state_dict())
SELF_LOOPS_AND_DUPLICATES = torch.tensor(
    [[0, 1, 1, 1, 2, 2, 3, 3], [1, 0, 1, 1, 1, 1, 3, 4]]
)


def assert_equal_with_gradients(edge_index, num_nodes):
    """Compare output and all gradients with those of PyG's conv."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_nodes, 4, generator=generator, dtype=torch.double)
    x.requires_grad_()
    found = []
    for conv in (PYG, OURS):
        out = conv(x, edge_index)
        loss = (out * torch.arange(1, 5)).square().sum()
        grads = torch.autograd.grad(loss, [x, *conv.parameters()])
        found.append([out, *grads])
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)


@given(graphs())
def test_gcn_equals_that_of_pyg(graph):
    assert_equal_with_gradients(*graph)


@pytest.mark.parametrize("name", small_graphs())
def test_gcn_equals_that_of_pyg_on_graphs_by_name(name):
    data = small_graphs()[name]
    assert_equal_with_gradients(data.edge_index, data.num_nodes)


def test_self_loops_and_parallel_edges_count_as_in_pyg():
    assert_equal_with_gradients(SELF_LOOPS_AND_DUPLICATES, 6)


def test_nodes_that_are_appended_with_edges_among_themselves_change_nothing():
    torch.manual_seed(0)
    x = torch.rand(6, 4, dtype=torch.double)
    alone = OURS(x[:5], SELF_LOOPS_AND_DUPLICATES)
    appended = torch.full((2, 3), 5)
    together = OURS(x, torch.cat([SELF_LOOPS_AND_DUPLICATES, appended], dim=1))
    torch.testing.assert_close(together[:5], alone, rtol=1e-12, atol=1e-12)

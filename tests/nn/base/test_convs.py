import pytest
import torch
from hypothesis import given
from torch_geometric.nn import GCNConv

from gnnak.errors import OptionError
from gnnak.nn.base import convs
from gnnak.nn.base.convs import GCN
from gnnak.nn.calling import try_out
from gnnak.testing import (
    assert_batching_consistent,
    assert_permutation_equivariant,
    small_graphs,
)
from tests.strategies import graphs

GRAPHS = small_graphs(channels=4, edge_channels=4)
DEGREES = torch.tensor([3, 8, 4, 1])
CONVS = {
    "gine": convs.gine,
    "gcn": convs.gcn,
    "sage": convs.sage,
    "gat": convs.gat,
    "gatedgcn": convs.gatedgcn,
    "pna": lambda channels: convs.pna(channels, DEGREES),
}
NO_EDGES = ("gcn", "sage")


def make_conv(name):
    torch.manual_seed(0)
    return CONVS[name](4).double().eval()


def run(name, conv, data):
    edges = None if name in NO_EDGES else data.edge_attr
    return try_out(conv, 4, "four")(conv, data.x, data.edge_index, edges, None)


@pytest.mark.parametrize("name", CONVS)
@pytest.mark.parametrize("width", [4, 6, 7])
def test_convs_keep_the_width_and_read_edge_states_of_that_width(name, width):
    calling = try_out(CONVS[name](width), width, "constant")
    assert calling.out_channels == width
    assert ("edge_attr" in calling.edge_arguments) == (name not in NO_EDGES)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", CONVS)
def test_convs_are_permutation_equivariant(name, graph):
    conv = make_conv(name)
    assert_permutation_equivariant(lambda d: run(name, conv, d), GRAPHS[graph])


@pytest.mark.parametrize("name", CONVS)
def test_convs_are_batching_consistent(name):
    conv = make_conv(name)
    assert_batching_consistent(lambda d: run(name, conv, d), list(GRAPHS.values()))


def test_gine_equals_its_equation_node_by_node():
    conv, data = make_conv("gine"), GRAPHS["directed"]
    assert isinstance(conv.eps, torch.nn.Parameter)
    assert conv.eps.item() == 0
    with torch.no_grad():
        conv.eps.fill_(0.25)
    wanted = 1.25 * data.x
    for number, (source, target) in enumerate(data.edge_index.t().tolist()):
        wanted[target] += torch.relu(data.x[source] + data.edge_attr[number])
    wanted = conv.nn(wanted)
    got = conv(data.x, data.edge_index, data.edge_attr)
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


def test_gcn_has_self_loops_and_symmetric_normalisation():
    conv, data = make_conv("gcn"), GRAPHS["path"]
    adjacency = torch.eye(3, dtype=torch.double)
    adjacency[data.edge_index[1], data.edge_index[0]] = 1
    scale = torch.diag(adjacency.sum(dim=1) ** -0.5)
    wanted = scale @ adjacency @ scale @ data.x @ conv.lin.weight.t() + conv.bias
    got = conv(data.x, data.edge_index)
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "degrees",
    [
        torch.tensor([5]),
        torch.tensor([5, 0, 0]),
        torch.tensor([]),
        torch.zeros(0, dtype=torch.long),
        torch.ones(2, 2, dtype=torch.long),
        torch.rand(4),
    ],
)
def test_pna_answers_a_useless_histogram_in_a_sentence(degrees):
    with pytest.raises(OptionError, match=r"give the histogram of in-degrees"):
        convs.pna(4, degrees)


PYG, OURS = GCNConv(4, 4).double(), GCN(4).double()
OURS.load_state_dict(PYG.state_dict())
SELF_LOOPS_AND_DUPLICATES = torch.tensor(
    [[0, 1, 1, 1, 2, 2, 3, 3], [1, 0, 1, 1, 1, 1, 3, 4]]
)


def assert_equal_with_gradients(edge_index, num_nodes):
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

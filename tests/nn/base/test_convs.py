import pytest
import torch

from gnnak.errors import OptionError
from gnnak.nn.base import convs
from gnnak.nn.calling import try_out
from gnnak.testing import (
    assert_batching_consistent,
    assert_permutation_equivariant,
    small_graphs,
)

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

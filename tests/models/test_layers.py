import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv, GINEConv, SAGEConv

from gnnak import GNNAK, EgoNets
from gnnak.errors import EdgeAttrError, OptionError, SubgraphError, WidthError
from gnnak.models import Kernel, OuterLayer
from gnnak.nn import Categorical, make_encoder
from gnnak.nn.base.convs import gine
from gnnak.testing import small_graphs

PATH = small_graphs(channels=4)["path"]
BATCH = torch.zeros(3, dtype=torch.long)
SUBGRAPHS = EgoNets(1)(PATH.edge_index, 3)
BONDS = torch.tensor([0, 0, 1, 1])


def uplifted(edge_encoder=None):
    gnn = GNNAK(SAGEConv(6, 6), 4, 4, hop_channels=2, max_hops=1)
    return Kernel(gnn, 4, edge_encoder).double().eval()


def plain(edge_encoder=None):
    return Kernel(SAGEConv(4, 4), 4, edge_encoder).double().eval()


def test_kernel_runs_a_plain_gnn_on_the_whole_graph():
    kernel = plain()
    got = kernel(PATH.x, PATH.edge_index, None, BATCH, None)
    assert torch.equal(got, kernel.gnn(PATH.x, PATH.edge_index))


def test_kernel_runs_an_uplifted_gnn_on_the_subgraphs():
    kernel = uplifted()
    got = kernel(PATH.x, PATH.edge_index, None, BATCH, SUBGRAPHS)
    assert torch.equal(got, kernel.gnn(PATH.x, SUBGRAPHS))


def test_kernel_encodes_raw_edge_attributes_for_its_gnn():
    encoder = make_encoder(Categorical((2,)), 4)
    kernel = Kernel(GINEConv(nn.Linear(4, 4)), 4, encoder).double()
    got = kernel(PATH.x, PATH.edge_index, BONDS, BATCH, None)
    edges = encoder.tables.weight[BONDS]
    assert torch.equal(got, kernel.gnn(PATH.x, PATH.edge_index, edges))


def test_kernel_does_not_drop_encoded_edge_attributes():
    """Fault of the published code: edge attributes dropped silently by convs."""
    for kernel in (plain(make_encoder(None, 4)), uplifted(make_encoder(None, 6))):
        with pytest.raises(EdgeAttrError, match="SAGEConv does not read edge"):
            kernel.double()(PATH.x, PATH.edge_index, None, BATCH, SUBGRAPHS)


def test_kernel_without_subgraphs_says_what_to_do():
    with pytest.raises(SubgraphError, match="build the network with an extractor"):
        uplifted()(PATH.x, PATH.edge_index, None, BATCH, None)


@pytest.mark.parametrize(
    ("gnn", "wanted"),
    [
        (GCNConv(5, 4), "takes width 5, but gets 4"),
        (GCNConv(4, 5), "GCNConv maps width 4 to 5 in a network of width 4"),
        (GNNAK(GCNConv(4, 4), 4, 5, hop_channels=0), "GNNAK maps width 4 to 5.* build"),
        (GNNAK(GCNConv(5, 5), 5, 4, hop_channels=0), "GNNAK maps width 5 to 4.* build"),
    ],
)
def test_kernel_answers_a_wrong_width_with_the_number_to_use(gnn, wanted):
    with pytest.raises(WidthError, match=wanted):
        Kernel(gnn, 4)


@pytest.mark.parametrize("residual", ["sum", "linear"])
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_outer_layer_equals_its_equation(training, residual):
    kernels = [uplifted(), plain()]
    layer = OuterLayer(kernels, 4, residual=residual).double().train(training)
    out = kernels[0].gnn(PATH.x, SUBGRAPHS) + kernels[1].gnn(PATH.x, PATH.edge_index)
    if layer.linear is not None:
        out = out + PATH.x @ layer.linear.weight.T + layer.linear.bias
    mean, variance = torch.zeros(4).double(), torch.ones(4).double()
    if training:
        mean, variance = out.mean(dim=0), out.var(dim=0, unbiased=False)
    wanted = torch.relu((out - mean) / (variance + 1e-5).sqrt())
    wanted = wanted + PATH.x if residual == "sum" else wanted
    got = layer(PATH.x, PATH.edge_index, None, BATCH, SUBGRAPHS)
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


def test_second_gnn_reads_the_first_channels_of_the_edge_states():
    encoder = make_encoder(Categorical((3,)), 6, rows="edges")
    first, second = GNNAK(gine(6), 4, 4, hop_channels=2, max_hops=2), gine(4)
    layer = OuterLayer([Kernel(first, 4, encoder), Kernel(second, 4)], 4).double()
    values = torch.arange(PATH.edge_index.size(1)) % 3
    edges = encoder(values, values.numel())
    out = first(PATH.x, SUBGRAPHS, edges)
    out = out + second(PATH.x, PATH.edge_index, edges[:, :4])
    wanted = PATH.x + layer.after(out)
    got = layer(PATH.x, PATH.edge_index, values, BATCH, SUBGRAPHS)
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


def test_second_edge_encoder_is_an_error():
    encoders = [make_encoder(Categorical((3,)), 4, rows="edges") for _ in range(2)]
    with pytest.raises(OptionError, match="only the first kernel"):
        OuterLayer([Kernel(gine(4), 4, encoder) for encoder in encoders], 4)


def test_outer_layer_drops_entries_of_the_branch_and_keeps_the_residual():
    layer = OuterLayer([plain()], 4, dropout=0.999999).double().train()
    got = layer(PATH.x, PATH.edge_index, None, BATCH, None)
    assert torch.equal(got, PATH.x)


def test_outer_layer_of_nothing_is_an_error():
    with pytest.raises(OptionError, match="give at least one"):
        OuterLayer([], 4)

"""Slices of subgraphs have the outputs, gradients and statistics of the whole."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch_geometric.data import Batch
from torch_geometric.nn import GIN, GINConv, GraphNorm

from gnnak import GNNAK, PAPER, PUBLISHED, EgoNets, SubgraphDrop, uplift
from gnnak.errors import OptionError
from gnnak.nn.slices import Slices
from gnnak.training.module import batch_statistics
from tests.models.zoo import molecules, small_network
from tests.strategies import graphs

NAMES = ("gin-ak+", "gcn-ak", "pna*-ak+", "ppgn-ak+", "gin", "gin-ak+-s")


@pytest.fixture
def batch():
    return Batch.from_data_list(molecules())


@given(graphs(), st.integers(1, 40), st.integers(0, 3))
def test_concatenated_slices_equal_the_whole(graph, max_copies, num_hops):
    edge_index, num_nodes = graph
    whole = EgoNets(num_hops)(edge_index, num_nodes)
    copies = subgraphs = 0
    found = {name: [] for name in ("root", "node", "hop", "edge", "edge_index")}
    for part in Slices(whole, max_copies):
        assert part.num_subgraphs
        if part.num_subgraphs > 1:
            assert part.num_copies <= 2 * max_copies
        for name, values in found.items():
            values.append(getattr(part, name) + copies * (name == "edge_index"))
        wanted = whole.subgraph[copies : copies + part.num_copies]
        assert torch.equal(part.subgraph + subgraphs, wanted)
        assert torch.equal(part.node[part.centroid], part.root)
        copies += part.num_copies
        subgraphs += part.num_subgraphs
    assert copies == whole.num_copies
    for name, values in found.items():
        if num_nodes:
            assert torch.equal(torch.cat(values, dim=-1), getattr(whole, name))


def test_slices_require_at_least_one_copy():
    whole = EgoNets(1)(torch.tensor([[0], [1]]), 2)
    with pytest.raises(OptionError, match="max_copies is 0"):
        list(Slices(whole, 0))


def test_a_subgraph_larger_than_max_copies_is_a_slice_by_itself():
    """The hub of a star, with a copy of every leaf, between single nodes."""
    star = torch.tensor([[0, 1, 2], [3, 3, 3]])
    parts = list(Slices(EgoNets(1)(star, 5), 2))
    assert [part.root.tolist() for part in parts] == [[0, 1], [2], [3], [4]]


def assert_same_training(whole, sliced, run):
    found = []
    for module in (whole, sliced):
        torch.manual_seed(3)
        out = run(module)
        out.square().sum().backward()
        gradients = {f"{name}.grad": p.grad for name, p in module.named_parameters()}
        found.append({"out": out, **gradients, **module.state_dict()})
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("max_copies", [1, 20])
@pytest.mark.parametrize("training", [True, False])
def test_networks_in_slices_equal_the_whole(name, reduce, max_copies, training, batch):
    drop = SubgraphDrop("random", 1)
    whole = small_network(name, reduce=reduce, drop=drop).train()
    whole(batch).sum().backward()
    whole.zero_grad(set_to_none=True)
    sliced = copy.deepcopy(whole.train(training))
    sliced.save_memory(recompute=False, max_copies=max_copies)

    def run(network):
        return network(batch, generator=torch.Generator().manual_seed(5))

    assert_same_training(whole, sliced, run)


class Norms(nn.Module):
    """A base GNN with several norms; one is called twice, one has no statistics."""

    def __init__(self, channels):
        super().__init__()
        self.conv = GINConv(nn.Linear(channels, channels), train_eps=True)
        norms = nn.BatchNorm1d(channels), nn.BatchNorm1d(channels, momentum=None)
        bare = nn.BatchNorm1d(channels, affine=False, track_running_stats=False)
        self.norms = nn.Sequential(*norms, bare)
        self.twice = nn.BatchNorm1d(channels)
        self.per_graph = GraphNorm(channels)

    def forward(self, x, edge_index, batch=None):
        x = self.twice(self.norms(self.conv(x, edge_index)).tanh()).relu()
        return self.twice(self.per_graph(x, batch))


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("options", [PAPER, PUBLISHED])
@pytest.mark.parametrize("drop", [False, True])
def test_batch_norms_of_own_gnns_take_statistics_over_all_slices(reduce, options, drop):
    torch.manual_seed(0)
    ring = torch.stack([torch.arange(12), torch.arange(1, 13) % 12])
    edges = torch.cat([ring, ring.flip(0), torch.tensor([[0, 5], [5, 0]])], dim=1)
    subgraphs = EgoNets(2)(edges, 14)
    if drop:
        seed = torch.Generator().manual_seed(0)
        subgraphs = SubgraphDrop("random", 2)(subgraphs, edges, seed)
    whole = GNNAK(
        Norms(9), 4, 6, hop_channels=5, max_hops=2, reduce=reduce, options=options
    ).double()
    for weight in whole.parameters():  # No input of a ReLU is then 0 up to rounding.
        weight.data.add_(torch.randn_like(weight), alpha=0.2)
    sliced = copy.deepcopy(whole)
    sliced.max_copies = 7
    states = torch.randn(14, 4, dtype=torch.double)
    inputs = {m: states.clone().requires_grad_() for m in (whole, sliced)}
    assert_same_training(whole, sliced, lambda layer: layer(inputs[layer], subgraphs))
    found, wanted = inputs[sliced].grad, inputs[whole].grad
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_an_uplifted_model_trains_in_slices():
    torch.manual_seed(0)
    star = torch.tensor([[0, 1, 2, 3, 4], [5, 5, 5, 5, 5]])
    edges = torch.cat([star, star.flip(0)], dim=1)
    net = uplift(
        GIN(4, 8, 2, norm="BatchNorm"), num_hops=1, options=PUBLISHED, max_copies=3
    ).double()
    whole = copy.deepcopy(net)
    for module in whole.modules():
        if isinstance(module, GNNAK):
            module.max_copies = None
    x = torch.randn(6, 4, dtype=torch.double)
    assert_same_training(whole, net, lambda module: module(x, edges))


def test_all_passes_of_a_slice_have_the_same_dropout_masks():
    ring = torch.stack([torch.arange(6), torch.arange(1, 7) % 6])
    subgraphs = EgoNets(2)(ring, 6)
    layer = GNNAK(
        GINConv(nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))),
        3, 4, hop_channels=0, options=PUBLISHED, dropout=0.5, max_copies=4,
    ).double()  # fmt: skip

    def run(x):
        torch.manual_seed(1)
        return layer(x, subgraphs)

    x = torch.randn(6, 3, dtype=torch.double, requires_grad=True)
    assert torch.equal(run(x), run(x))
    assert torch.autograd.gradcheck(run, x)
    torch.manual_seed(2)
    assert not torch.equal(run(x), layer(x, subgraphs))


def test_slices_save_no_activations_for_the_backward_pass():
    ring = torch.stack([torch.arange(60), torch.arange(1, 61) % 60])
    subgraphs = EgoNets(5)(ring, 60)
    layer = GNNAK(GINConv(nn.Linear(8, 8)), 8, 8, hop_channels=0, options=PUBLISHED)
    saved = []
    for max_copies in (None, 40):
        layer.max_copies, sizes = max_copies, {}

        def note(tensor, sizes=sizes):
            sizes[tensor.data_ptr()] = tensor.numel()
            return tensor

        with saved_tensors_hooks(note, lambda tensor: tensor):
            layer(torch.randn(60, 8), subgraphs)
        saved.append(sum(sizes.values()))
    assert saved[1] < saved[0] / 4


class SometimesNormed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x, edge_index):
        return self.norm(x) if edge_index.size(1) else x


def test_norms_that_only_some_slices_call_are_refused():
    edges = torch.tensor([[0, 1], [1, 0]])
    layer = GNNAK(SometimesNormed(), 3, 3, hop_channels=0, max_copies=2)
    with pytest.raises(OptionError, match="same BatchNorms on all subgraphs"):
        layer(torch.randn(4, 3), EgoNets(1)(edges, 4))


def test_slices_keep_the_order_of_the_encodings(batch):
    network = small_network("gin-ak+", encodings=("context", "subgraph", "centroid"))
    network.eval()
    with torch.no_grad():
        whole = network(batch)
        network.save_memory(max_copies=20)
        torch.testing.assert_close(network(batch), whole, rtol=1e-12, atol=1e-12)


def test_batch_statistics_in_evaluation_are_those_of_all_slices(batch):
    network = small_network("gin-ak+").eval()
    before = copy.deepcopy(network.state_dict())
    with torch.no_grad(), batch_statistics(network):
        whole = network(batch)
        network.save_memory(max_copies=20)
        torch.testing.assert_close(network(batch), whole, rtol=1e-12, atol=1e-12)
    after = network.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())

"""Subgraphs that do not fit into memory: layers with `max_copies` stream them."""

import pytest
import torch
from torch_geometric import nn as pyg

import gnnak
from gnnak import EgoNets
from gnnak.errors import SizeError


def run(net, x, edge_index):
    """Return the outputs of a training pass, and the gradients of all weights."""
    net.zero_grad()
    out = net(x, edge_index)
    (out * torch.arange(out.numel()).view_as(out)).sum().backward()
    return [out, *(p.grad for p in net.parameters())]


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_training_on_streams_has_the_gradients_of_the_whole(reduce):
    torch.manual_seed(0)
    x = torch.rand(20, 5, dtype=torch.double)
    edge_index = torch.randint(20, (2, 50))
    model = pyg.GCN(5, 4, num_layers=2, norm="batch_norm").double()
    nets = []
    for limit in (None, 300):  # the second extractor refuses all subgraphs at once
        torch.manual_seed(1)
        extractor = EgoNets(2, copy_limit=limit)
        net = gnnak.uplift(model, extractor, reduce=reduce, max_copies=15)
        nets.append(net.double())
    with pytest.raises(SizeError):
        EgoNets(2, copy_limit=300)(edge_index, 20)
    for whole, part in zip(*(run(n, x, edge_index) for n in nets), strict=True):
        torch.testing.assert_close(part, whole)


def test_models_without_max_copies_refuse_subgraphs_that_do_not_fit():
    edge_index = torch.randint(20, (2, 50))
    net = gnnak.uplift(pyg.GCN(5, 4, num_layers=1), EgoNets(2, copy_limit=10))
    with pytest.raises(SizeError):
        net(torch.rand(20, 5), edge_index)


def test_subgraph_drop_does_not_sample_from_streams():
    edge_index = torch.randint(20, (2, 50))
    drop = gnnak.SubgraphDrop("random", min_coverage=1)
    net = gnnak.uplift(
        pyg.GCN(5, 4, num_layers=1),
        EgoNets(2, copy_limit=300),
        drop=drop,
        max_copies=15,
    )
    with pytest.raises(SizeError, match="leave SubgraphDrop out"):
        net(torch.rand(20, 5), edge_index)
    assert net.eval()(torch.rand(20, 5), edge_index).shape == (20, 4)

"""Options that trade time for memory do not change outputs or gradients."""

import copy

import pytest
import torch
from torch_geometric.data import Batch

from gnnak import EgoNets
from gnnak.errors import OptionError
from gnnak.sampling import SubgraphDrop
from gnnak.training.module import batch_statistics
from tests.models.zoo import molecules, small_network

NAMES = ("gin-ak+", "gcn-ak", "pna*-ak+", "ppgn-ak+", "gin", "gin-ak+-s")


@pytest.fixture
def batch():
    return Batch.from_data_list(molecules())


@pytest.mark.parametrize("name", NAMES)
def test_recomputing_gives_the_same_values_gradients_and_statistics(name, batch):
    drop = SubgraphDrop("random", 1)
    plain = small_network(name, dropout=0.3, drop=drop).train()
    saving = copy.deepcopy(plain)
    saving.save_memory(recompute=True)
    outs = []
    for network in (plain, saving):
        torch.manual_seed(3)
        out = network(batch, generator=torch.Generator().manual_seed(5))
        out.square().sum().backward()
        outs.append(out)
    assert torch.equal(*outs)
    for ours, theirs in zip(saving.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-12)
    for name, value in plain.state_dict().items():
        assert torch.equal(saving.state_dict()[name], value), name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("max_copies", [1, 20])
def test_slices_of_copies_give_the_same_values(name, reduce, max_copies, batch):
    network = small_network(name, reduce=reduce)
    network.train()(batch)
    network.eval()
    with torch.no_grad():
        whole = network(batch)
        network.save_memory(recompute=False, max_copies=max_copies)
        sliced = network(batch)
    torch.testing.assert_close(sliced, whole, rtol=1e-12, atol=1e-12)


def test_slices_keep_the_order_of_the_encodings(batch):
    network = small_network("gin-ak+", encodings=("context", "subgraph", "centroid"))
    network.eval()
    with torch.no_grad():
        whole = network(batch)
        network.save_memory(max_copies=20)
        torch.testing.assert_close(network(batch), whole, rtol=1e-12, atol=1e-12)


def test_nothing_is_sliced_where_norms_take_statistics_of_the_batch(batch):
    network = small_network("gin-ak+").eval()
    with torch.no_grad(), batch_statistics(network):
        whole = network(batch)
        network.save_memory(max_copies=20)
        assert torch.equal(network(batch), whole)


def test_nothing_is_sliced_of_a_choice_of_subgraphs(batch):
    network = small_network("gin-ak+").eval()
    subgraphs = EgoNets(2)(batch.edge_index, batch.num_nodes)
    few = SubgraphDrop("random", 1)(
        subgraphs, batch.edge_index, torch.Generator().manual_seed(0)
    )
    with torch.no_grad():
        whole = network(batch, subgraphs=few)
        network.save_memory(max_copies=20)
        assert torch.equal(network(batch, subgraphs=few), whole)


def test_slices_of_copies_have_gradients_too(batch):
    network = small_network("gin-ak+").eval()
    network.save_memory(max_copies=10)
    network(batch).sum().backward()
    assert all(p.grad.isfinite().all() for p in network.parameters())


def test_save_memory_wants_at_least_one_copy():
    with pytest.raises(OptionError, match="max_copies is 0"):
        small_network("gin-ak+").save_memory(max_copies=0)

import pytest
import torch
from torch_geometric.data import Data

from gnnak.testing import (
    assert_batching_consistent,
    assert_permutation_equivariant,
    permute,
    small_graphs,
)

EDGE = torch.tensor([[0, 1], [1, 0]])


def test_permute_by_hand():
    """Node 2 is renamed to 0, node 0 to 1, node 1 to 2; the edges are shuffled."""
    data = Data(
        edge_index=torch.tensor([[0, 1, 1], [1, 0, 2]]),
        x=torch.tensor([[10], [11], [12]]),
        edge_attr=torch.tensor([[1], [10], [12]]),
    )
    renamed = permute(data, torch.tensor([2, 0, 1]))
    assert renamed.x.tolist() == [[12], [10], [11]]
    edges = {
        int(attr): ends
        for attr, ends in zip(
            renamed.edge_attr, renamed.edge_index.t().tolist(), strict=True
        )
    }
    assert edges == {1: [1, 2], 10: [2, 1], 12: [2, 0]}
    assert data.x.tolist() == [[10], [11], [12]]
    assert data.edge_index.tolist() == [[0, 1, 1], [1, 0, 2]]


def test_permute_moves_all_that_belongs_to_nodes_and_edges_and_keeps_the_rest():
    data = small_graphs(4, 3)["star"]
    data.pos, data.train_mask = torch.rand(6, 2), torch.arange(6) < 2
    data.edge_weight = torch.arange(10.0)
    data.y, data.name = torch.tensor([7.0]), "star"
    order = torch.tensor([3, 5, 0, 1, 2, 4])
    renamed = permute(data, order)
    assert torch.equal(renamed.pos, data.pos[order])
    assert torch.equal(renamed.train_mask, data.train_mask[order])
    shuffled = renamed.edge_weight.long()
    assert sorted(shuffled.tolist()) == list(range(10))
    assert torch.equal(renamed.edge_attr, data.edge_attr[shuffled])
    assert torch.equal(order[renamed.edge_index], data.edge_index[:, shuffled])
    assert (renamed.y.tolist(), renamed.name) == ([7.0], "star")
    assert sorted(renamed.keys()) == sorted(data.keys())


def test_permute_works_on_the_device_of_the_graph():
    """On the meta device nothing may be mixed with tensors of the CPU."""
    data = small_graphs(4, 3)["star"].to("meta")
    renamed = permute(data, torch.arange(6))
    assert {value.device.type for _, value in renamed} == {"meta"}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("num_nodes", [2, 3])
def test_symmetry_check_never_uses_the_identity(num_nodes, seed):
    data = Data(edge_index=EDGE, x=torch.rand(num_nodes, 4))

    def function(data):
        return data.x.cumsum(dim=0)

    with pytest.raises(AssertionError):
        assert_permutation_equivariant(function, data, seed=seed)


def test_an_order_dependent_layer_fails_the_symmetry_check():
    def function(data):
        return data.x.cumsum(dim=0)

    with pytest.raises(AssertionError):
        assert_permutation_equivariant(function, small_graphs()["star"])


def test_a_layer_that_mixes_graphs_fails_the_batching_check():
    graphs = list(small_graphs().values())
    with pytest.raises(AssertionError):
        assert_batching_consistent(lambda data: data.x - data.x.mean(), graphs)

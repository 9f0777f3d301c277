import pytest
import torch

from gnnak.nn.base.ppgn import find_pairs, multiply_pairs, pair_states


def test_find_pairs_gives_values_computed_by_hand():
    """Node 0 is alone; nodes 1, 3 and nodes 2, 4 are in graphs of two nodes."""
    pairs = find_pairs(torch.tensor([7, 2, 4, 2, 4]))
    assert pairs.sizes == [(1, 1), (2, 2)]
    assert pairs.num_pairs == 9
    assert pairs.nodes.tolist() == [1, 2, 2]
    assert pairs.start.tolist() == [0, 1, 5]
    assert pairs.first.tolist() == [0, 1, 5, 3, 7]
    assert pairs.position.tolist() == [0, 0, 0, 1, 1]
    assert pairs.size.tolist() == [1, 2, 2, 2, 2]
    assert pairs.rank.tolist() == [0, 1, 3, 2, 4]
    assert pairs.diagonal.tolist() == [0, 1, 5, 4, 8]


def test_find_pairs_of_no_node_finds_none():
    pairs = find_pairs(torch.zeros(0, dtype=torch.long))
    assert pairs.sizes == []
    assert pairs.num_pairs == 0
    assert pairs.first.numel() == pairs.start.numel() == 0


@pytest.mark.parametrize("ordered", [True, False])
def test_find_pairs_gives_every_pair_of_a_graph_one_row(ordered):
    batch = torch.randint(20, (70,), generator=torch.Generator().manual_seed(0))
    batch = batch.sort().values if ordered else batch
    pairs = find_pairs(batch)
    rows = []
    for i in range(70):
        others = (batch == batch[i]).nonzero().flatten()
        assert pairs.position[others].tolist() == list(range(len(others)))
        assert pairs.size[i] == len(others)
        rows += (pairs.first[i] + pairs.position[others]).tolist()
    assert sorted(rows) == list(range(pairs.num_pairs))
    assert sum(count for _, count in pairs.sizes) == len(pairs.nodes)
    assert torch.equal(pairs.first.argsort().argsort(), pairs.rank)


def test_pair_states_are_those_of_nodes_and_edges():
    """Two nodes; edges 0 -> 1 twice, and a self loop of node 1."""
    x, e = torch.tensor([[1.0], [2.0]]), torch.tensor([[10.0], [20.0], [40.0]])
    pairs = find_pairs(torch.tensor([0, 0]))
    found = pair_states(x, torch.tensor([[0, 0, 1], [1, 1, 1]]), e, pairs)
    assert found.flatten().tolist() == [1, 0, 30, 42]


def test_multiply_pairs_gives_values_computed_by_hand():
    pairs = find_pairs(torch.tensor([1, 1, 0]))
    left, right = torch.tensor([[5.0], [1], [2], [3], [4]]), torch.arange(5.0)[:, None]
    assert multiply_pairs(left, right, pairs).flatten().tolist() == [0, 7, 10, 15, 22]

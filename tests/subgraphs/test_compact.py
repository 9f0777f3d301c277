"""Copies and pickles of subgraphs that share their memory with other batches."""

import copy
import pickle

import pytest
import torch

from gnnak import EgoNets, SubgraphDrop
from gnnak.fast.layers.lift import edges_of
from gnnak.graphs import GraphStore
from gnnak.loading.splitting import split
from gnnak.loading.windows import make_window
from gnnak.subgraphs.rooted import TENSORS

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def first_of_8_batches(sampled):
    store = GraphStore(torch.tensor([3] * 8), torch.tensor([4] * 8), PATH.repeat(1, 8))
    graphs = store[torch.arange(8)]
    subgraphs = EgoNets(1)(graphs.edge_index, graphs.num_nodes)
    if sampled:
        subgraphs = SubgraphDrop("random", 1)(subgraphs, graphs.edge_index)
    return split(make_window(graphs, subgraphs, [1] * 8), groups=True)[0].subgraphs


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize(
    "way", [copy.deepcopy, lambda whole: pickle.loads(pickle.dumps(whole))]
)
def test_copies_of_one_batch_do_not_contain_the_others(way, sampled):
    subgraphs = first_of_8_batches(sampled)
    edges_of(subgraphs)  # caches views of other tensors
    size = len(pickle.dumps(first_of_8_batches(sampled)))
    assert len(pickle.dumps(subgraphs)) < 1.2 * size
    copied = way(subgraphs)
    for name in TENSORS:
        mine, theirs = getattr(copied, name), getattr(subgraphs, name)
        assert torch.equal(mine, theirs)
        assert mine.untyped_storage().nbytes() == mine.nbytes
    mine, theirs = copied.by("node"), subgraphs.by("node")
    assert torch.equal(mine.ptr, theirs.ptr)
    assert torch.equal(mine.order, theirs.order)
    assert mine.ptr.untyped_storage().nbytes() == mine.ptr.nbytes
    if sampled:
        part = copied.filling.node
        assert torch.equal(part, subgraphs.filling.node)
        assert part.untyped_storage().nbytes() == part.nbytes


def test_a_shallow_copy_shares_all_tensors():
    subgraphs = first_of_8_batches(sampled=False)
    copied = copy.copy(subgraphs)
    assert all(getattr(copied, name) is getattr(subgraphs, name) for name in TENSORS)
    assert copied.centroid is subgraphs.centroid

from dataclasses import replace

import numpy as np
import pytest
import torch

from gnnak.datasets.benchmarks import (
    _neighbors,
    folds_by_group,
    stratified_folds,
    superpixel_edges,
)
from gnnak.errors import OptionError
from gnnak.graphs import GraphStore, read_npz


def random_superpixels(sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(256, (sum(sizes), 5), generator=generator)
    empty = torch.zeros(len(sizes), dtype=torch.long)
    return GraphStore(torch.tensor(sizes), empty, torch.empty(2, 0).long(), x=x)


def literal(x):
    """The recipe in numpy, one graph at a time."""
    position, nodes = x[:, 3:].numpy() / 255, range(len(x))
    distance = np.linalg.norm(position[:, None] - position[None], axis=2)
    nearest = np.sort(distance, axis=1)[:, 1:9]
    similarity = np.exp(-((distance / nearest.mean(axis=1, keepdims=True)) ** 2))
    similarity = (similarity + similarity.T) / 2
    np.fill_diagonal(similarity, 0)
    edges = set()
    for node in nodes:
        rank = similarity[node].argsort(kind="stable").argsort().astype(np.int16)
        for other in np.argpartition(rank, len(x) - 10)[-9:-1].tolist():
            edges |= {(node, other), (other, node)}
    return edges


def test_superpixel_edges_equal_the_recipe_graph_by_graph():
    sizes = [30, 12, 50, 10, 30]
    store = random_superpixels(sizes, seed=3)
    built = superpixel_edges(store).check()
    for index, x in enumerate(store.x.split(sizes)):
        graph, wanted = built[index], literal(x)
        found = list(map(tuple, graph.edge_index.t().tolist()))
        assert sorted(found) == sorted(wanted)
        assert graph.edge_attr is None


def test_superpixel_edges_ignore_colours():
    store = random_superpixels([40])
    grey = replace(store, x=store.x * torch.tensor([0, 0, 0, 1, 1]))
    found, wanted = superpixel_edges(grey), superpixel_edges(store)
    assert torch.equal(found.edge_index, wanted.edge_index)


def test_superpixel_edges_leave_out_one_of_the_nine_nearest():
    """In this order, numpy moves the nearest, 15, to the last position."""
    ranks = torch.tensor([3, 11, 6, 0, 9, 14, 1, 7, 13, 4, 15, 10, 2, 8, 12, 5])
    chosen = _neighbors(ranks.double().expand(1, 16, 16))[0, 3]
    assert sorted(ranks[chosen].tolist()) == [7, 8, 9, 10, 11, 12, 13, 14]


def test_superpixel_edges_of_small_graphs_are_all_pairs():
    built = superpixel_edges(random_superpixels([0, 1, 2, 5, 9])).check()
    assert built.num_edges.tolist() == [0, 0, 2, 20, 72]


@pytest.mark.heavy
def test_superpixel_edges_of_real_images_are_as_many_as_published(data_dir):
    file = read_npz(data_dir / "cifar10-superpixels.npz", allow_no_edges=True)
    built = superpixel_edges(file.store.subset(slice(0, 60_000, 20)))
    mean = float(built.num_edges.double().mean())
    assert mean == pytest.approx(1129.8, abs=1)


def test_folds_by_group_test_every_graph_once_and_keep_groups_together():
    group = torch.arange(40) // 2
    folds = folds_by_group(group, 10, seed=1)
    assert folds.sum(dim=0).tolist() == [1] * 40
    assert folds.sum(dim=1).tolist() == [4] * 10
    assert torch.equal(folds[:, 0::2], folds[:, 1::2])
    assert not torch.equal(folds, folds_by_group(group, 10, seed=2))


def test_stratified_folds_have_their_share_of_every_class():
    y = torch.arange(10).repeat_interleave(15)
    folds = stratified_folds(y, 5)
    assert folds.sum(dim=0).tolist() == [1] * 150
    for fold in folds:
        assert y[fold == 1].bincount().tolist() == [3] * 10


def test_folds_are_at_least_two():
    with pytest.raises(OptionError, match="num_folds is 1"):
        folds_by_group(torch.zeros(3, dtype=torch.long), 1)

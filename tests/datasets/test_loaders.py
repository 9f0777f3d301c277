import pytest
import torch

from gnnak.datasets.loaders import pattern_graphs
from gnnak.graphs.ragged import counts_of


@pytest.fixture(scope="module")
def sampled():
    return pattern_graphs(0, (300, 60, 40)).check()


def test_pattern_graphs_have_the_split_sizes_and_colours(sampled):
    assert sampled.split.bincount().tolist() == [300, 60, 40]
    store = sampled.store
    assert store.node_targets
    assert store.num_nodes.min() >= 6 * 5
    assert store.num_nodes.max() <= 6 * 34
    assert store.x.sum(dim=1).unique().tolist() == [1]
    assert store.x.unique(dim=0).tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert store.num_nodes.double().mean() == pytest.approx(118.9, rel=0.03)
    assert (2 * store.num_edges).double().mean() == pytest.approx(6079.8, rel=0.05)


def test_pattern_edges_are_simple(sampled):
    store = sampled.store
    low, high = store.edge_index.sort(dim=0).values
    assert (low < high).all()
    graph = torch.arange(len(store)).repeat_interleave(store.num_edges)
    key = (graph * 256 + low) * 256 + high
    assert key.unique().numel() == key.numel()


def test_pattern_edges_come_with_the_stated_chances(sampled):
    batch = sampled.store.union()
    inside = batch.y == 1
    size = counts_of(batch.batch[inside], len(sampled.store)).double()
    rest = sampled.store.num_nodes - size
    ends = batch.y[batch.edge_index].sum(dim=0).bincount(minlength=3).double()
    assert ends[2] / (size * (size - 1) / 2).sum() == pytest.approx(0.5, abs=0.02)
    assert ends[1] / (size * rest).sum() == pytest.approx(0.5, abs=0.01)
    within = 5 * 0.5 * (19.5**2 + 899 / 12 - 19.5) / 2
    across = 10 * 0.35 * 19.5**2
    assert ends[0] / len(sampled.store) == pytest.approx(within + across, rel=0.05)


def test_pattern_graphs_repeat_one_hundred_patterns(sampled):
    sizes = sampled.store.num_nodes.tolist()
    colors, labels = sampled.store.x.argmax(dim=1).split(sizes), sampled.store.y == 1
    kinds = {
        tuple(color[label].bincount(minlength=3).tolist())
        for color, label in zip(colors, labels.split(sizes), strict=True)
    }
    assert len(kinds) <= 100

import pytest
import torch

from gnnak.datasets.loaders import pattern_graphs
from gnnak.graphs.ragged import counts_of
from tests.graphs.graph_strategies import assert_same


@pytest.fixture(scope="module")
def drawn():
    return pattern_graphs(0, (300, 60, 40)).check()


def test_pattern_graphs_have_the_split_sizes_and_colours(drawn):
    assert drawn.split.bincount().tolist() == [300, 60, 40]
    store = drawn.store
    assert store.node_targets
    assert store.num_nodes.min() >= 6 * 5
    assert store.num_nodes.max() <= 6 * 34
    assert store.x.sum(dim=1).unique().tolist() == [1]
    assert store.x.unique(dim=0).tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert store.num_nodes.double().mean() == pytest.approx(118.9, rel=0.03)
    assert (2 * store.num_edges).double().mean() == pytest.approx(6079.8, rel=0.05)


def test_pattern_edges_are_simple(drawn):
    store = drawn.store
    low, high = store.edge_index.sort(dim=0).values
    assert (low < high).all()
    graph = torch.arange(len(store)).repeat_interleave(store.num_edges)
    key = (graph * 256 + low) * 256 + high
    assert key.unique().numel() == key.numel()


def test_pattern_edges_come_with_the_stated_chances(drawn):
    batch = drawn.store.union()
    inside = batch.y == 1
    size = counts_of(batch.batch[inside], len(drawn.store)).double()
    rest = drawn.store.num_nodes - size
    ends = batch.y[batch.edge_index].sum(dim=0).bincount(minlength=3).double()
    assert ends[2] / (size * (size - 1) / 2).sum() == pytest.approx(0.5, abs=0.02)
    assert ends[1] / (size * rest).sum() == pytest.approx(0.5, abs=0.01)
    within = 5 * 0.5 * (19.5**2 + 899 / 12 - 19.5) / 2
    across = 10 * 0.35 * 19.5**2
    assert ends[0] / len(drawn.store) == pytest.approx(within + across, rel=0.05)


def test_pattern_graphs_repeat_one_hundred_patterns(drawn):
    inside = drawn.store.y == 1
    kinds = set()
    for part, colour, label in zip(
        drawn.store.num_nodes.cumsum(0).tolist(),
        drawn.store.x.argmax(dim=1).split(drawn.store.num_nodes.tolist()),
        inside.split(drawn.store.num_nodes.tolist()),
        strict=True,
    ):
        assert part > 0
        kinds.add(tuple(colour[label].bincount(minlength=3).tolist()))
    assert len(kinds) <= 100


def test_pattern_graphs_follow_the_seed():
    parts = (3, 1, 1)
    assert_same(pattern_graphs(4, parts), pattern_graphs(4, parts))
    first, other = (pattern_graphs(seed, parts).store for seed in (4, 5))
    assert first.num_nodes.tolist() != other.num_nodes.tolist()

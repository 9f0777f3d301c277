import networkx as nx
import numpy as np
import pytest

from gnnak.datasets.mixture import MIXTURE, property_graphs, toggled
from gnnak.graphs.ragged import counts_of
from tests.graphs.graph_strategies import assert_same


@pytest.mark.parametrize("kind", MIXTURE)
@pytest.mark.parametrize("size", [15, 16, 23])
def test_mixture_samples_graphs_of_the_given_size(kind, size):
    graph = MIXTURE[kind][1](size, np.random.default_rng(0))
    assert len(graph) == size
    assert not nx.number_of_selfloops(graph)


def test_mixture_shares_add_up_to_one():
    assert sum(share for share, _ in MIXTURE.values()) == pytest.approx(1)


@pytest.mark.parametrize("density", [0.1, 0.9])
def test_toggled_keeps_graphs_simple_and_about_as_dense(density):
    random = np.random.default_rng(0)
    joined = np.triu(random.random((200, 200)) < density, 1)
    joined |= joined.T
    found = toggled(joined, random)
    assert np.array_equal(found, found.T)
    assert not found.diagonal().any()
    kept = (found & joined).sum() / joined.sum()
    assert kept == pytest.approx(0.98 if density < 0.5 else 1.0, abs=0.02)


def test_property_graphs_have_sources_noise_and_no_isolated_node():
    file = property_graphs(0, share=0.01).check()
    assert file.split.bincount().tolist() == [50, 5, 15]
    store = file.store
    assert sorted(set(store.num_nodes[file.split == 0].tolist())) == [*range(15, 25)]
    assert sorted(set(store.num_nodes[file.split == 2].tolist())) == [*range(15, 20)]
    batch = store.union()
    degree = counts_of(batch.edge_index.flatten(), batch.num_nodes)
    assert degree.min() >= 1
    sources = batch.batch[batch.x[:, 0] == 1]
    assert sources.tolist() == list(range(len(store)))
    assert 0 <= batch.x[:, 1].min() < batch.x[:, 1].max() <= 1


def test_property_graphs_depend_on_the_seed():
    assert_same(property_graphs(3, 0.002), property_graphs(3, 0.002))

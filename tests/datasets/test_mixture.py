import networkx as nx
import numpy as np
import pytest
import torch

from gnnak.datasets.mixture import MIXTURE, graph_property, property_graphs, toggled
from gnnak.errors import OptionError
from gnnak.graphs import from_networkx, to_networkx
from gnnak.graphs.ragged import counts_of
from gnnak.graphs.store import with_reverse_edges


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


@pytest.fixture(scope="module")
def store():
    return with_reverse_edges(property_graphs(0, share=0.02).store)


@pytest.fixture(scope="module")
def graphs(store):
    return [nx.Graph(to_networkx(store, index)) for index in range(len(store))]


def parts(graph):
    return [graph.subgraph(nodes) for nodes in nx.connected_components(graph)]


EXPECTED = {
    "connected": nx.is_connected,
    "connected-legacy": lambda g: nx.is_connected(g) and not nx.is_bipartite(g),
    "diameter": lambda g: max(nx.diameter(part) for part in parts(g)),
    "radius": lambda g: min(nx.radius(part) for part in parts(g)),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_graph_property_equals_networkx(name, store, graphs):
    expected = [float(EXPECTED[name](graph)) for graph in graphs]
    assert graph_property(store, name).tolist() == expected


def test_spectral_radius_is_the_largest_eigenvalue():
    store = from_networkx([nx.complete_graph(5), nx.cycle_graph(6), nx.star_graph(9)])
    found = graph_property(store, "spectral-radius")
    assert found.tolist() == pytest.approx([4, 2, 3])


def test_connected_legacy_is_wrong_for_about_half_of_the_graphs(store):
    true = graph_property(store, "connected")
    legacy = graph_property(store, "connected-legacy")
    assert (legacy <= true).all()
    assert 0.4 < float((true != legacy).double().mean()) < 0.6


def test_graph_property_of_corner_cases():
    store = from_networkx([nx.empty_graph(1), nx.empty_graph(2), nx.path_graph(2)])
    assert graph_property(store, "connected").tolist() == [1, 0, 1]
    assert graph_property(store, "diameter").tolist() == [0, 0, 1]
    assert graph_property(store, "radius").tolist() == [0, 0, 1]
    assert not graph_property(store.subset(slice(0)), "diameter").numel()
    with pytest.raises(OptionError, match="use one of: connected"):
        graph_property(store, "girth")
    assert graph_property(store, "diameter").dtype == torch.double

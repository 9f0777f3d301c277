import networkx as nx
import pytest
import torch

from gnnak.datasets.mixture import graph_property, property_graphs
from gnnak.errors import OptionError
from gnnak.graphs import from_networkx, to_networkx
from gnnak.graphs.reverse_edges import with_reverse_edges


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

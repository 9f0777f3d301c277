import networkx as nx
import pytest

from gnnak.graphs.named import Graph, four_regular_pair, rook, shrikhande


def as_networkx(graph: Graph) -> nx.Graph:
    edge_index, num_nodes = graph
    built = nx.Graph()
    built.add_nodes_from(range(num_nodes))
    built.add_edges_from(edge_index.t().tolist())
    assert 2 * built.number_of_edges() == edge_index.size(1)
    return built


def test_four_regular_pair_is_regular_connected_and_not_isomorphic():
    first, second = map(as_networkx, four_regular_pair())
    for graph in (first, second):
        assert set(dict(graph.degree).values()) == {4}
        assert nx.is_connected(graph)
    assert not nx.is_isomorphic(first, second)


def test_four_regular_pair_differs_in_the_egonets_it_names():
    first, second = map(as_networkx, four_regular_pair())
    differ = [
        node
        for node in first
        if not nx.is_isomorphic(nx.ego_graph(first, node), nx.ego_graph(second, node))
    ]
    assert differ == [0, 2, 3, 4, 5]


@pytest.mark.parametrize("graph", [rook(), shrikhande()])
def test_strongly_regular_graphs_are_srg_16_6_2_2(graph):
    built = as_networkx(graph)
    assert nx.is_strongly_regular(built)
    assert set(dict(built.degree).values()) == {6}
    assert sum(nx.triangles(built).values()) / 3 == 16 * 6 * 2 / 6


def test_rook_and_shrikhande_are_not_isomorphic():
    assert not nx.is_isomorphic(as_networkx(rook()), as_networkx(shrikhande()))

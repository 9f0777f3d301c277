import networkx as nx
import pytest

from gnnak.errors import GraphError
from gnnak.graphs.families import furer_pair
from gnnak.graphs.named import rook, shrikhande
from gnnak.wl.families import classes


def test_furer_pair_of_a_triangle_is_two_triangles_and_a_hexagon():
    hexagon = nx.cycle_graph(6)
    triangles = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    for built, wanted in zip(
        furer_pair(nx.cycle_graph(3)), (triangles, hexagon), strict=True
    ):
        graph = nx.Graph(built[0].T.tolist())
        assert nx.vf2pp_is_isomorphic(graph, wanted)


def test_furer_pair_of_k4_is_the_rook_and_the_shrikhande_graph():
    many = [*furer_pair(nx.complete_graph(4)), rook(), shrikhande()]
    assert classes(many)[:2] in ([0, 1], [1, 0])
    assert classes(many)[2:] == classes(many)[:2]


def test_furer_pair_needs_a_connected_base_of_small_degree():
    with pytest.raises(GraphError, match="must be simple and undirected"):
        furer_pair(nx.DiGraph([(0, 1)]))
    with pytest.raises(GraphError, match="4 nodes and 2 edges and must be connected"):
        furer_pair(nx.Graph([(0, 1), (2, 3)]))
    with pytest.raises(GraphError, match="1 nodes and 0 edges"):
        furer_pair(nx.empty_graph(1))
    with pytest.raises(GraphError, match="degree 13, which would become 4096 nodes"):
        furer_pair(nx.star_graph(13))

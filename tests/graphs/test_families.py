import networkx as nx
import numpy as np
import pytest

from gnnak.errors import GraphError, OptionError
from gnnak.graphs import read_graph6
from gnnak.graphs.families import (
    cfi_pair,
    csl,
    furer_pair,
    srg16,
    srg25,
    srg26,
    srg28,
)
from gnnak.graphs.named import Graph, four_regular_pair, rook, shrikhande
from gnnak.wl import distinguishes, partition
from gnnak.wl.families import classes


def test_cfi_pairs_are_cubic_unlike_and_alike_to_2_fwl():
    first, second = cfi_pair(nx.complete_graph(4))
    assert classes([first, second]) != [0, 0]
    assert not distinguishes("2-fwl", first, second)
    for edge_index, num_nodes in (first, second):
        assert edge_index[0].bincount().tolist() == [3] * num_nodes


@pytest.mark.parametrize(
    "base",
    [
        nx.MultiGraph([(0, 1), (0, 1), (0, 1)]),
        nx.DiGraph([(0, 1), (1, 2), (2, 0)]),
        nx.Graph([(0, 0), (0, 1), (1, 1)]),
    ],
    ids=["multigraph", "directed", "self loops"],
)
def test_cfi_needs_a_simple_undirected_base(base):
    with pytest.raises(GraphError, match="must be simple and undirected, but"):
        cfi_pair(base)


def test_cfi_takes_nodes_of_mixed_types():
    base = nx.relabel_nodes(nx.complete_graph(4), {0: "a", 1: (1,)})
    assert not distinguishes("1-wl", *cfi_pair(base))


def test_cfi_needs_a_connected_cubic_base():
    with pytest.raises(GraphError, match="node 0 does not have degree 3"):
        cfi_pair(nx.path_graph(3))
    with pytest.raises(GraphError, match="disconnected"):
        cfi_pair(nx.disjoint_union(nx.complete_graph(4), nx.complete_graph(4)))


def test_csl_graphs_are_pairwise_unlike():
    assert len(set(classes(csl()))) == 10
    with pytest.raises(OptionError, match="skip is 40"):
        csl(41, [40])


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


SRG = {
    srg16: (2, 6, 2, 2),
    srg25: (15, 12, 5, 6),
    srg26: (10, 10, 3, 4),
    srg28: (4, 12, 6, 4),
}


def is_strongly_regular(graph, degree, joined, apart):
    """Whether all nodes have this degree, and all pairs these common neighbours."""
    edge_index, num_nodes = graph
    table = np.zeros((num_nodes, num_nodes), dtype=np.int64)
    table[edge_index[0].numpy(), edge_index[1].numpy()] = 1
    wanted = np.where(table == 1, joined, apart)
    np.fill_diagonal(wanted, degree)
    return bool((table @ table == wanted).all())


@pytest.mark.parametrize("build", SRG, ids=lambda build: build.__name__)
def test_strongly_regular_families_are_complete_and_pairwise_unlike(build):
    count, *parameters = SRG[build]
    graphs = build()
    assert len(graphs) == count
    assert partition("subgraph-1-wl", graphs) == list(range(count))
    assert all(is_strongly_regular(graph, *parameters) for graph in graphs)


@pytest.mark.slow
def test_srg25_are_the_graphs_of_the_data_set(data_dir):
    path = data_dir / "sr25.g6"
    if not path.exists():
        pytest.skip("needs sr25.g6 in GNNAK_DATA")
    store = read_graph6(path)
    ends = store.edge_index.split(store.num_edges.tolist(), dim=1)
    known = [(edge_index, 25) for edge_index in ends]
    found = classes([*srg25(), *known])
    assert sorted(found[:15]) == sorted(found[15:])
    assert len(set(found)) == 15


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

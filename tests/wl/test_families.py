import networkx as nx
import pytest

from gnnak.errors import GraphError, OptionError
from gnnak.graphs.readers import read_graph6
from gnnak.wl import distinguishes, partition
from gnnak.wl.families import (
    cfi_pair,
    circulants,
    csl,
    cycle_and_two,
    regular_pair,
    srg16,
    srg25,
    srg26,
    srg28,
    trees,
)
from gnnak.wl.families.registry import FAMILIES, family
from gnnak.wl.families.strongly_regular import _graph, is_strongly_regular
from gnnak.wl.families.two_graphs import (
    descendants,
    latin_squares,
    regular_members,
    regular_two_graphs,
    triple_systems,
)
from gnnak.wl.families.unlike import classes, unlike

SRG = {
    srg16: (2, 6, 2, 2),
    srg25: (15, 12, 5, 6),
    srg26: (10, 10, 3, 4),
    srg28: (4, 12, 6, 4),
}


@pytest.mark.parametrize("build", SRG, ids=lambda build: build.__name__)
def test_strongly_regular_families_are_complete_and_pairwise_unlike(build):
    count, *parameters = SRG[build]
    graphs = build()
    assert len(graphs) == count
    assert partition("subgraph-1-wl", graphs) == list(range(count))
    assert all(is_strongly_regular(graph, *parameters) for graph in graphs)


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


@pytest.mark.slow
def test_the_four_two_graphs_hold_no_further_strongly_regular_graph():
    matrices = regular_two_graphs()
    below = [_graph(m) for s in matrices for m in descendants(s)]
    assert len(below) == 104
    assert len(unlike(below)) == 15
    inside = [_graph(m) for s in matrices for m in regular_members(s, 5)]
    assert len(inside) == 188
    assert len(unlike(inside)) == 10


def test_latin_squares_hold_each_symbol_once_in_every_line():
    for square in latin_squares():
        for line in [*square, *square.T]:
            assert sorted(line.tolist()) == [0, 1, 2, 3, 4]


def test_triple_systems_hold_each_pair_once():
    for blocks in triple_systems():
        pairs = {(a, b) for block in blocks for a in block for b in block if a < b}
        assert len(blocks) == 26
        assert len(pairs) == 78


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
    with pytest.raises(GraphError, match="node 0 is not"):
        cfi_pair(nx.path_graph(3))
    with pytest.raises(GraphError, match="in parts"):
        cfi_pair(nx.disjoint_union(nx.complete_graph(4), nx.complete_graph(4)))


def test_csl_graphs_are_pairwise_unlike():
    assert len(set(classes(csl()))) == 10
    with pytest.raises(OptionError, match="skip is 40"):
        csl(41, [40])


def test_circulants_regular_pairs_and_cycles_are_unlike_and_alike_to_1_wl():
    groups = [circulants(12), list(regular_pair(12, 3, seed=1)), cycle_and_two(9)]
    for group in groups:
        assert len(set(classes(group))) == len(group)
        assert set(partition("1-wl", group)) == {0}
    with pytest.raises(OptionError, match="were isomorphic; raise num_nodes"):
        regular_pair(4, 3, seed=0)


def test_trees_are_all_told_apart_by_1_wl():
    assert [len(trees(n)) for n in (7, 8, 9, 10)] == [11, 23, 47, 106]
    assert len(set(partition("1-wl", trees(9)))) == 47


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_built(name):
    assert all(num_nodes > 0 for group in family(name) for _, num_nodes in group)


def test_an_unknown_family_is_named_with_the_known_ones():
    with pytest.raises(OptionError, match="family is 'paley'; use one of: four-reg"):
        family("paley")

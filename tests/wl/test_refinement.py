import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak.wl import partition
from gnnak.wl.families import connected_graphs
from gnnak.wl.inputs import read_union
from gnnak.wl.refinement import REFINEMENTS, color_refinement
from tests.wl.plain import classes, graphs, plain_1_wl, plain_k_wl


def test_color_refinement_of_a_path_of_four_by_hand():
    rounds = list(color_refinement(read_union([nx.path_graph(4)])))
    assert [coloring.color.tolist() for coloring in rounds] == [
        [0, 0, 0, 0],
        [0, 1, 1, 0],
    ]


@settings(max_examples=40, deadline=None)
@given(st.lists(graphs(), min_size=2, max_size=5))
def test_1_wl_agrees_with_its_plain_form(many):
    assert partition("1-wl", many) == classes(plain_1_wl(many))


def test_round_0_of_2_wl_holds_the_types_of_pairs():
    union = read_union(["B_"])
    coloring = next(REFINEMENTS["2-wl"](union))
    # B_ is the edge 0-1 and the node 2: other pairs 0, joined pairs 1, nodes 2.
    assert coloring.color.view(3, 3).tolist() == [[2, 1, 0], [1, 2, 0], [0, 0, 2]]
    assert coloring.node.tolist() == [0, 4, 8]


def test_diagonal_of_triples_in_graphs_of_two_sizes():
    union = read_union(["A_", "B_", "A?"])
    coloring = next(REFINEMENTS["3-fwl"](union))
    assert coloring.node.tolist() == [0, 7, 16, 29, 42, 8, 15]
    assert coloring.graph[coloring.node].tolist() == union.graph.tolist()


@pytest.mark.parametrize(
    ("test", "k", "folklore"),
    [("2-wl", 2, False), ("3-wl", 3, False), ("2-fwl", 2, True), ("3-fwl", 3, True)],
)
@settings(max_examples=12, deadline=None)
@given(many=st.lists(graphs(max_nodes=5), min_size=2, max_size=4))
def test_tuple_tests_agree_with_their_plain_form(many, test, k, folklore):
    assert partition(test, many) == classes(plain_k_wl(many, k, folklore))


@pytest.mark.heavy
@settings(max_examples=25, deadline=None)
@given(st.lists(graphs(labeled=True), min_size=2, max_size=6))
def test_2_wl_is_1_wl_and_3_wl_is_2_fwl_on_labelled_graphs(many):
    assert partition("2-wl", many) == partition("1-wl", many)
    assert partition("3-wl", many) == partition("2-fwl", many)


@settings(max_examples=25, deadline=None)
@given(st.lists(graphs(5, directed=True, loops=False), min_size=2, max_size=6))
def test_2_wl_is_1_wl_on_directed_graphs_without_self_loops(many):
    assert partition("2-wl", many) == partition("1-wl", many)


@pytest.mark.heavy
@settings(max_examples=25, deadline=None)
@given(st.lists(graphs(max_nodes=5, directed=True), min_size=2, max_size=6))
def test_3_wl_is_2_fwl_on_directed_graphs(many):
    assert partition("3-wl", many) == partition("2-fwl", many)


def test_2_wl_sees_self_loops_that_1_wl_takes_for_neighbours():
    edge, loops = nx.DiGraph([(0, 1), (1, 0)]), nx.DiGraph([(0, 0), (1, 1)])
    assert partition("1-wl", [edge, loops]) == [0, 0]
    assert partition("2-wl", [edge, loops]) == [0, 1]


@pytest.mark.heavy
def test_2_wl_is_1_wl_and_3_wl_is_2_fwl_on_every_small_graph():
    many = [graph for n in range(1, 8) for graph in connected_graphs(n)]
    assert partition("2-wl", many) == partition("1-wl", many)
    assert partition("3-wl", many) == partition("2-fwl", many)

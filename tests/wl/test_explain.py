import networkx as nx
import numpy as np
import pytest

from gnnak.graphs.named import four_regular_pair
from gnnak.wl import TESTS, distinguishes, explain
from gnnak.wl.families import rook, shrikhande
from gnnak.wl.plotting import plot_explanation, positions


def test_explain_a_path_and_a_star_by_hand():
    found = explain("1-wl", nx.path_graph(4), nx.star_graph(3))
    assert (found.distinguished, found.round, found.rounds) == (True, 1, 2)
    assert [color.counts for color in found.colors] == [(2, 3), (2, 0), (0, 1)]
    assert [color.example for color in found.colors] == [(0,), (1,), (0,)]
    assert [color.sees for color in found.colors] == [{0: 1}, {0: 2}, {0: 3}]
    assert found.node_colors == ([0, 2, 2, 0], [3, 1, 1, 1])


def test_explain_says_what_an_egonet_holds():
    found = explain("subgraph-1-wl*", *four_regular_pair())
    assert found.round == 1
    assert {color.joined for color in found.colors} == {6, 7}
    assert "round 1" in str(found)


def test_explain_names_the_tuples_that_decide():
    found = explain("3-wl", nx.cycle_graph(6), nx.circular_ladder_graph(3))
    assert found.round == 0
    for color in found.colors:
        assert len(color.example) == 3
        assert color.counts[0] != color.counts[1]


def test_explain_takes_the_example_from_the_first_graph_that_has_the_colour():
    larger, smaller = nx.path_graph(5), nx.path_graph(3)
    for pair in ((larger, smaller), (smaller, larger)):
        found = explain("2-fwl", *pair)
        assert found.colors
        for color in found.colors:
            assert color.graph == (0 if color.counts[0] else 1)
            assert max(color.example) < len(pair[color.graph])
            assert color.counts[color.graph] > 0
    joined = next(color for color in found.colors if color.counts == (4, 8))
    assert smaller.has_edge(*joined.example)
    assert "of the first" in str(found)


@pytest.mark.parametrize("test", TESTS)
def test_explain_agrees_with_distinguishes(test):
    for pair in (four_regular_pair(), (rook(), shrikhande()), ("Bw", "Bo")):
        assert explain(test, *pair).distinguished == distinguishes(test, *pair)


def test_explain_of_graphs_that_are_not_distinguished():
    found = explain("3-wl", rook(), shrikhande())
    assert found.round is None
    assert found.colors == ()
    assert "does not tell the graphs apart: stable after 0 rounds" in str(found)


def test_explain_of_graphs_of_different_size_and_of_no_nodes():
    assert explain("2-fwl", nx.Graph(), nx.path_graph(1)).round == 0
    assert explain("1-wl", nx.path_graph(2), nx.path_graph(3)).round == 0


def test_plot_gives_every_node_its_colour(tmp_path):
    figure = plot_explanation(explain("subgraph-1-wl*", *four_regular_pair()))
    shown = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert len(shown) == 16
    figure.savefig(tmp_path / "colours.png")
    assert (tmp_path / "colours.png").stat().st_size > 10_000


def test_plot_does_not_cut_off_nodes_and_has_readable_numbers():
    both = plot_explanation(explain("1-wl", nx.path_graph(60), nx.path_graph(2)))
    nodes = [node for axes in both.axes for node in axes.collections]
    assert len(nodes) == 62
    assert not any(node.get_clip_on() for node in nodes)
    assert {text.get_color() for text in both.axes[0].texts} == {"white", "black"}


def test_plot_of_many_colours_and_of_an_empty_graph():
    many = plot_explanation(explain("1-wl", nx.path_graph(60), nx.Graph()))
    assert [axes.get_title() for axes in many.axes] == [
        "first: 60 nodes, 30 colours",
        "second: 0 nodes, 0 colours",
    ]


@pytest.mark.parametrize(
    "graph",
    [
        nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)),
        nx.disjoint_union_all([nx.path_graph(2)] * 5 + [nx.complete_graph(6)]),
        nx.empty_graph(7),
        nx.path_graph(9),
    ],
    ids=["two triangles", "many parts", "no edges", "one part"],
)
def test_positions_keep_all_nodes_apart(graph):
    """Nodes are circles of about 1/25 of the picture's width."""
    places = np.array(list(positions(graph).values()))
    assert sorted(positions(graph)) == list(graph)
    width = (places.max(axis=0) - places.min(axis=0)).max()
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert gaps[~np.eye(len(places), dtype=bool)].min() > width / 20

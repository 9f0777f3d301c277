import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak.errors import GraphError
from gnnak.wl import isomorphism
from gnnak.wl.families import cfi_pair, connected_graphs, rook, shrikhande
from gnnak.wl.inputs import read_union
from gnnak.wl.isomorphism import isomorphism_classes, pointed_classes, representatives
from tests.wl.plain import classes, graphs, relabeled_pairs


def truth(many, label=None):
    """Return the isomorphism classes that networkx' VF2++ finds."""
    known, found = [], []
    for graph in many:
        for index, other in enumerate(known):
            if nx.vf2pp_is_isomorphic(graph, other, node_label=label):
                found.append(index)
                break
        else:
            known.append(graph)
            found.append(len(known) - 1)
    return found


@pytest.fixture(params=[10**6, 0], ids=["unfolding", "pair by pair"])
def either_way(request, monkeypatch):
    monkeypatch.setattr(isomorphism, "UNFOLD_LIMIT", request.param)


@pytest.mark.usefixtures("either_way")
def test_isomorphism_classes_agree_with_vf2pp():
    @settings(max_examples=25, deadline=None)
    @given(st.lists(graphs(max_nodes=6), min_size=2, max_size=6))
    def agree(many):
        assert classes(isomorphism_classes(read_union(many)).tolist()) == truth(many)

    agree()


@pytest.mark.usefixtures("either_way")
def test_isomorphism_classes_respect_node_colours():
    @settings(max_examples=25, deadline=None)
    @given(st.lists(graphs(max_nodes=5), min_size=2, max_size=4), st.data())
    def agree(many, data):
        for graph in many:
            for node in graph:
                graph.nodes[node]["label"] = data.draw(st.sampled_from("ab"))
        found = isomorphism_classes(read_union(many)).tolist()
        assert classes(found) == truth(many, "label")

    agree()


@pytest.mark.usefixtures("either_way")
def test_isomorphism_classes_of_regular_graphs_agree_with_vf2pp():
    many = [nx.random_regular_graph(3, 10, seed=seed) for seed in range(15)]
    assert classes(isomorphism_classes(read_union(many)).tolist()) == truth(many)


@settings(max_examples=25, deadline=None)
@given(relabeled_pairs(directed=True, labeled=True))
def test_isomorphism_classes_join_relabelled_graphs(pair):
    assert isomorphism_classes(read_union(pair)).unique().numel() == 1


@pytest.mark.usefixtures("either_way")
def test_isomorphism_classes_separate_strongly_regular_graphs():
    many = [rook(), shrikhande(), rook()]
    assert classes(isomorphism_classes(read_union(many)).tolist()) == [0, 1, 0]


@pytest.mark.heavy
def test_all_connected_graphs_are_those_of_the_atlas():
    atlas = [g for g in nx.graph_atlas_g()[1:] if nx.is_connected(g)]
    built = [graph for n in range(1, 8) for graph in connected_graphs(n)]
    assert len(built) == len(atlas) == 996
    found = isomorphism_classes(read_union([*built, *atlas])).tolist()
    assert len(set(found)) == 996
    assert sorted(found[:996]) == sorted(found[996:])


def test_pointed_classes_are_the_orbits():
    star, path = nx.star_graph(3), nx.path_graph(3)
    found = classes(pointed_classes(read_union([star, path, path])).tolist())
    assert found == [0, 1, 1, 1, 2, 3, 2, 2, 3, 2]


def test_representatives_are_isomorphic_to_what_they_stand_for():
    many = [nx.random_regular_graph(4, 8, seed=seed) for seed in range(30)]
    found = representatives(read_union(many)).tolist()
    assert all(nx.vf2pp_is_isomorphic(many[i], many[j]) for i, j in enumerate(found))
    assert all(found[j] == j for j in found)


@pytest.mark.parametrize("limit", [1000, pytest.param(100000, marks=pytest.mark.slow)])
def test_a_hard_pair_is_given_up(limit, monkeypatch):
    monkeypatch.setattr(isomorphism, "SEARCH_LIMIT", limit)
    monkeypatch.setattr(isomorphism, "UNFOLD_LIMIT", 10 * limit)
    monkeypatch.setattr(isomorphism, "OWN_LIMIT", limit)
    with pytest.raises(GraphError, match=f"100 nodes were not decided within {limit}"):
        isomorphism_classes(read_union(cfi_pair(nx.petersen_graph())))


def test_a_comparison_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(isomorphism, "UNFOLD_LIMIT", 0)
    monkeypatch.setattr(isomorphism, "SEARCH_LIMIT", 5)
    with pytest.raises(GraphError, match="16 nodes were not decided within 5"):
        isomorphism_classes(read_union([rook(), shrikhande()]))

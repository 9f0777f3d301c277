from itertools import product

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak.graphs.named import four_regular_pair
from gnnak.wl import HASHES, TESTS, distinguishes, partition
from gnnak.wl.families import connected_graphs
from gnnak.wl.inputs import read_union
from gnnak.wl.subgraph import egonet_union
from tests.wl.plain import classes, finer, graphs, plain_subgraph_1_wl, relabeled_pairs

READINGS = [
    {},
    {"d2c": True},
    {"root_mark": True},
    {"centroid": True},
    {"context": True},
    {"d2c": True, "centroid": True, "context": True},
]


def all_options():
    """Yield every test with all combinations of options to check."""
    for test in TESTS:
        if not test.startswith("subgraph"):
            yield test, {}
    for reading in READINGS:
        yield "subgraph-1-wl*", {**reading, "num_hops": 2}
        yield "subgraph-1-wl", reading
        yield "subgraph-1-wl", {**reading, "hash": "2-fwl"}


def test_egonet_union_of_a_directed_path_follows_paths_towards_the_root():
    union = read_union([nx.DiGraph([(0, 1), (1, 2)])])
    subs, inside = egonet_union(union, 1, torch.arange(3))
    assert subs.node.tolist() == [0, 0, 1, 1, 2]
    assert inside.graph.tolist() == [0, 1, 1, 2, 2]
    assert inside.edge_index.tolist() == [[2, 1, 4, 3], [1, 2, 3, 4]]
    assert inside.forward.tolist() == [False, True, False, True]


@pytest.mark.parametrize("num_hops", [1, 2])
@pytest.mark.parametrize("root_mark", [False, True])
@settings(max_examples=8, deadline=None)
@given(many=st.lists(graphs(max_nodes=6), min_size=2, max_size=4))
def test_exact_hash_agrees_with_vf2pp_inside(many, num_hops, root_mark):
    found = partition("subgraph-1-wl", many, num_hops=num_hops, root_mark=root_mark)
    assert found == classes(plain_subgraph_1_wl(many, num_hops, root_mark))


@pytest.mark.heavy
@pytest.mark.parametrize("kind", [{}, {"directed": True, "max_nodes": 5}], ids=str)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_no_test_separates_relabelled_graphs(kind, data):
    pair = data.draw(relabeled_pairs(labeled=True, **kind))
    for test, options in all_options():
        assert not distinguishes(test, *pair, **options), (test, options)


@pytest.mark.heavy
@settings(max_examples=5, deadline=None)
@given(st.lists(graphs(max_nodes=6), min_size=2, max_size=5))
def test_whatever_a_test_separates_is_not_isomorphic(many):
    truth = [
        [nx.vf2pp_is_isomorphic(first, second) for second in many] for first in many
    ]
    for test, options in all_options():
        found = partition(test, many, **options)
        for i, j in product(range(len(many)), repeat=2):
            assert not truth[i][j] or found[i] == found[j]


@pytest.mark.parametrize(
    ("most", "num_hops"),
    [(6, 1), (5, 3), *(pytest.param(7, k, marks=pytest.mark.slow) for k in (1, 2, 3))],
)
@pytest.mark.parametrize("reading", READINGS, ids=lambda r: "+".join(r) or "plain")
def test_on_small_graphs_1_wl_is_below_star_and_star_below_exact(
    reading, most, num_hops
):
    many = [graph for n in range(1, most + 1) for graph in connected_graphs(n)]
    star = partition("subgraph-1-wl*", many, num_hops=num_hops, **reading)
    exact = partition("subgraph-1-wl", many, num_hops=num_hops, **reading)
    assert finer(star, partition("1-wl", many))
    assert finer(exact, star)


@pytest.mark.heavy
@settings(max_examples=10, deadline=None)
@given(st.lists(graphs(max_nodes=9), min_size=2, max_size=5))
def test_star_separates_whatever_1_wl_separates_and_exact_whatever_star_does(many):
    plain = partition("1-wl", many)
    for reading in READINGS:
        star = partition("subgraph-1-wl*", many, num_hops=1, **reading)
        assert finer(star, plain)
        assert finer(partition("subgraph-1-wl", many, num_hops=1, **reading), star)
    for reading in READINGS[1:4]:  # the root is known, so any radius will do
        star = partition("subgraph-1-wl*", many, num_hops=2, **reading)
        assert finer(star, plain)


@pytest.mark.heavy
@settings(max_examples=15, deadline=None)
@given(st.lists(graphs(max_nodes=6), min_size=2, max_size=5))
def test_stronger_hashes_separate_more(many):
    found = {h: partition("subgraph-1-wl", many, hash=h) for h in HASHES}
    assert found["1-wl"] == found["2-wl"] == partition("subgraph-1-wl*", many)
    assert found["3-wl"] == found["2-fwl"]
    assert finer(found["3-fwl"], found["2-fwl"])
    assert finer(found["2-fwl"], found["1-wl"])
    assert finer(found["exact"], found["3-fwl"])


@pytest.mark.heavy
@settings(max_examples=25, deadline=None)
@given(st.lists(graphs(max_nodes=8), min_size=2, max_size=5), st.integers(1, 3))
def test_proposition_2_context_distance_and_centroid_only_add_power(many, num_hops):
    def found(**reading):
        return partition("subgraph-1-wl*", many, num_hops=num_hops, **reading)

    plus = found(d2c=True, centroid=True, context=True)
    assert finer(plus, found(centroid=True))
    assert finer(found(centroid=True), found())
    assert finer(found(root_mark=True), found(centroid=True))
    assert finer(found(d2c=True), found(root_mark=True))
    assert finer(found(context=True), found())


@pytest.mark.parametrize(
    ("reading", "told_apart"),
    [
        ({}, False),
        ({"centroid": True}, False),
        ({"root_mark": True}, True),
        ({"d2c": True}, True),
    ],
)
def test_proposition_2_knowing_the_root_adds_power_strictly(reading, told_apart):
    pair = four_regular_pair()
    found = distinguishes("subgraph-1-wl*", *pair, num_hops=2, **reading)
    assert found == told_apart


@pytest.mark.parametrize("num_hops", [1, 2, 3])
@pytest.mark.parametrize("reading", ["d2c", "root_mark", "context", "centroid"])
def test_proposition_2_readings_only_add_power_on_small_graphs(reading, num_hops):
    many = [graph for n in range(1, 7) for graph in connected_graphs(n)]
    weaker = partition("subgraph-1-wl*", many, num_hops=num_hops)
    stronger = partition("subgraph-1-wl*", many, num_hops=num_hops, **{reading: True})
    assert finer(stronger, weaker)


def test_zero_hops_see_labels_alone():
    assert not distinguishes("subgraph-1-wl*", nx.path_graph(3), "B?", num_hops=0)

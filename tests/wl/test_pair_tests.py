"""The subgraph WL tests: their definitions, and the hierarchy that they form."""

from itertools import pairwise

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak.errors import GraphError, OptionError
from gnnak.graphs.named import four_regular_pair, rook, shrikhande
from gnnak.wl import distinguishes, explain, partition
from gnnak.wl.families import (
    SEPARATING,
    connected_graphs,
    csl,
    cycle_and_two,
    furer_pair,
    separating_pair,
    srg16,
    srg25,
    srg26,
    srg28,
)
from gnnak.wl.inputs import read_union
from gnnak.wl.pair_tests import (
    PAIR_TESTS,
    READOUTS,
    Pairs,
    folklore_steps,
    inside_steps,
)
from tests.wl.plain import classes, finer, graphs, plain_pair_test, relabeled_pairs

FIRST_FOUR = ("swl", "pswl", "gswl", "sswl")
VARIANTS = [(test, readout) for test in FIRST_FOUR for readout in READOUTS]
VARIANTS += [("2-lfwl", None), ("2-slfwl", None)]
"""Every test with every readout; None for tests without readouts."""
CHAINS = (
    (("1-wl", None), ("swl", "vs"), ("swl", "sv"), ("pswl", "sv"), ("gswl", "vs")),
    (("swl", "vs"), ("pswl", "vs"), ("pswl", "sv")),
    (("gswl", "vs"), ("sswl", "vs"), ("2-slfwl", None), ("2-fwl", None)),
    (("pswl", "vs"), ("2-lfwl", None), ("2-slfwl", None)),
)
"""Tests from the weakest to the strongest. On egonets, only the subgraph WL tests are
ordered like this."""


def options(readout):
    return {} if readout is None else {"readout": readout}


def told_apart(variant, pair, **more):
    test, readout = variant
    return distinguishes(test, *pair, **options(readout), **more)


def assert_hierarchy(many, **more):
    """Assert that every test of a chain is at least as fine as the one before."""
    found = {}
    for chain in CHAINS:
        for test, readout in chain:
            if test in PAIR_TESTS or not more:
                found[test, readout] = partition(test, many, **options(readout), **more)
        for coarse, fine in pairwise(chain):
            if coarse in found and fine in found:
                assert finer(found[fine], found[coarse]), (fine, coarse)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@settings(max_examples=10, deadline=None)
@given(
    many=st.lists(graphs(max_nodes=5, labeled=True), min_size=2, max_size=4),
    num_hops=st.sampled_from([None, 0, 1, 2]),
    marked=st.booleans(),
)
def test_pair_tests_agree_with_their_plain_form(many, variant, num_hops, marked):
    test, readout = variant
    wanted = plain_pair_test(many, test, num_hops, marked, readout)
    found = partition(
        test, many, num_hops=num_hops, root_mark=marked, **options(readout)
    )
    assert found == classes(wanted)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@settings(max_examples=10, deadline=None)
@given(
    pair=relabeled_pairs(directed=True, labeled=True), hops=st.sampled_from([None, 1])
)
def test_pair_tests_do_not_distinguish_a_graph_from_itself(pair, variant, hops):
    assert not told_apart(variant, pair, num_hops=hops)


GAPS = (
    (("swl", "sv"), ("pswl", "vs")),
    (("pswl", "vs"), ("swl", "sv")),
    (("gswl", "vs"), ("pswl", "sv")),
    (("sswl", "vs"), ("gswl", "vs")),
    (("2-lfwl", None), ("sswl", "vs")),
    (("sswl", "vs"), ("2-lfwl", None)),
    (("swl", "sv"), ("2-lfwl", None)),
    (("2-fwl", None), ("2-slfwl", None)),
)
"""For each of `SEPARATING`, a test that distinguishes the pair, and one that cannot."""


@pytest.mark.parametrize(
    ("edges", "tests"), list(zip(SEPARATING, GAPS, strict=True)), ids=SEPARATING
)
def test_separating_pairs_are_distinguished_by_the_stronger_test_only(edges, tests):
    found = [told_apart(test, separating_pair(edges)) for test in tests]
    assert found == [True, False]


@pytest.mark.slow
def test_separating_pairs_obey_the_hierarchy():
    assert_hierarchy(
        [graph for edges in SEPARATING for graph in separating_pair(edges)]
    )


def test_readout_makes_no_difference_for_gswl_and_sswl():
    pair = separating_pair(SEPARATING[3])
    for readout in READOUTS:
        assert not told_apart(("gswl", readout), pair)
        assert told_apart(("sswl", readout), pair)


@pytest.mark.parametrize("variant", [*VARIANTS, ("2-fwl", None)], ids=str)
def test_no_test_distinguishes_rook_and_shrikhande(variant):
    assert not told_apart(variant, (rook(), shrikhande()))
    assert not told_apart(variant, furer_pair(nx.complete_graph(4)))


@pytest.mark.parametrize("variant", [("swl", "vs"), ("sswl", "vs")], ids=str)
@pytest.mark.parametrize("num_hops", [1, 2, 3])
def test_marked_egonets_distinguish_cycles_of_up_to_2k_plus_1_nodes(num_hops, variant):
    for a in range(3, 2 * num_hops + 4):
        pair = nx.cycle_graph(2 * a), nx.disjoint_union(*[nx.cycle_graph(a)] * 2)
        assert told_apart(variant, pair, num_hops=num_hops) == (a <= 2 * num_hops + 1)


def test_unmarked_egonets_can_lose_power_with_more_hops():
    pair = nx.complete_bipartite_graph(3, 3), nx.circular_ladder_graph(3)
    for num_hops, apart in ((1, True), (2, False), (3, False), (None, False)):
        egonets = {"num_hops": num_hops}
        assert distinguishes("swl", *pair, root_mark=False, **egonets) == apart
        assert distinguishes("swl", *pair, **egonets)


def test_unmarked_swl_on_whole_graphs_is_1_wl():
    many = [*four_regular_pair(), rook(), shrikhande(), *cycle_and_two(7)]
    assert partition("swl", many, root_mark=False) == partition("1-wl", many)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"num_hops": 1}, {"num_hops": 2}], ids=str)
def test_hierarchy_holds_on_all_connected_graphs_of_up_to_7_nodes(more):
    many = [graph for n in range(1, 8) for graph in connected_graphs(n)]
    assert_hierarchy(many, **more)


@pytest.mark.slow
def test_egonets_are_at_most_as_powerful_as_whole_graphs():
    many = [g for n in range(1, 6) for g in connected_graphs(n)]
    many += [graph for n in range(6, 12) for graph in cycle_and_two(n)]
    for test, readout in VARIANTS:
        whole = partition(test, many, **options(readout))
        for num_hops in (1, 2):
            egonets = partition(test, many, num_hops=num_hops, **options(readout))
            assert finer(whole, egonets)


@pytest.mark.slow
def test_swl_distinguishes_all_csl_graphs():
    assert partition("1-wl", csl()) == [0] * 10
    assert partition("swl", csl()) == list(range(10))


@pytest.mark.slow
@pytest.mark.parametrize("family", [srg16, srg25, srg26, srg28])
def test_no_pair_test_distinguishes_strongly_regular_graphs(family):
    for test in ("sswl", "2-lfwl", "2-slfwl"):
        assert set(partition(test, family())) == {0}


def test_pair_tests_have_options_of_their_own():
    with pytest.raises(OptionError, match="no option 'readout' of 2-lfwl; use one of"):
        partition("2-lfwl", [rook()], readout="vs")
    with pytest.raises(OptionError, match="no option 'd2c' of swl"):
        partition("swl", [rook()], d2c=True)
    with pytest.raises(OptionError, match="num_hops is None"):
        partition("subgraph-1-wl*", [rook()], num_hops=None)
    with pytest.raises(GraphError, match=r"sswl needs about .* GiB for 1 graphs"):
        partition("sswl", [rook()], max_memory=1e-5)


def test_explain_names_a_pair_of_nodes_within_its_graph():
    path, star = nx.path_graph(4), nx.star_graph(3)
    told = explain("2-lfwl", path, star, num_hops=1)
    assert told.distinguished
    for color in told.colors:
        graph = (path, star)[color.graph]
        first, second = color.example
        assert first == second or graph.has_edge(first, second)
    assert explain("swl", path, star).colors[0].sees == {}


PATH = (torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)


def listed(pairs, indices):
    """Return the pairs at some indices as text, such as `01`."""
    return [f"{pairs.root[i]}{pairs.node[i]}" for i in indices.tolist()]


def entries(pairs, steps):
    """Return for each pair its entries; an entry is one or two pairs."""
    found = {}
    sources = [listed(pairs, source) for source in steps.sources]
    for target, *entry in zip(listed(pairs, steps.target), *sources, strict=True):
        found.setdefault(target, []).append(" ".join(entry))
    return {target: sorted(values) for target, values in sorted(found.items())}


def test_pairs_of_whole_graphs_include_other_components():
    union = read_union(["B_", "@"])
    pairs = Pairs.of(union, None)
    assert pairs.root.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert pairs.node.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 3]
    assert pairs.graph.tolist() == [0] * 9 + [1]
    assert pairs.own.tolist() == [0, 4, 8, 9]


def test_pairs_of_egonets_are_the_nodes_within_the_radius():
    pairs = Pairs.of(read_union([PATH]), 1)
    every = torch.arange(pairs.root.numel())
    assert listed(pairs, every) == ["00", "01", "10", "11", "12", "21", "22"]
    assert pairs.own.tolist() == [0, 3, 6]


def test_steps_of_a_path_on_whole_graphs():
    union = read_union([PATH])
    pairs = Pairs.of(union, None)
    inside = entries(pairs, inside_steps(union, pairs))
    assert inside["00"] == ["01"]
    assert inside["01"] == ["00", "02"]
    across = entries(pairs, inside_steps(union, pairs, across=True))
    assert across["01"] == ["11"]
    assert across["10"] == ["00", "20"]
    local = entries(pairs, folklore_steps(union, pairs, both=False))
    assert local["00"] == ["01 10"]
    assert local["01"] == ["00 01", "02 21"]
    both = entries(pairs, folklore_steps(union, pairs, both=True))
    assert both["00"] == ["01 10"]
    assert both["01"] == ["00 01", "01 11", "02 21"]


def test_steps_of_a_path_on_egonets_stay_in_the_subgraph():
    union = read_union([PATH])
    pairs = Pairs.of(union, 1)
    assert entries(pairs, inside_steps(union, pairs)) == {
        "00": ["01"],
        "01": ["00"],
        "10": ["11"],
        "11": ["10", "12"],
        "12": ["11"],
        "21": ["22"],
        "22": ["21"],
    }
    assert entries(pairs, inside_steps(union, pairs, across=True))["01"] == ["11"]
    assert entries(pairs, folklore_steps(union, pairs, both=False))["01"] == ["00 01"]


def test_pairs_of_graphs_without_nodes_or_edges():
    for empty in ([], [(torch.zeros(2, 0).long(), 0)], ["A?", "@"]):
        union = read_union(empty)
        for num_hops in (None, 0, 2):
            pairs = Pairs.of(union, num_hops)
            for steps in (
                inside_steps(union, pairs),
                inside_steps(union, pairs, across=True),
                folklore_steps(union, pairs, both=True),
            ):
                assert steps.target.numel() == 0

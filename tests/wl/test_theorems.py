"""Check the paper's theorems, corollaries and propositions by running the tests."""

from collections import Counter
from itertools import combinations

import networkx as nx
import pytest
import torch
from hypothesis import given, settings

from gnnak.graphs.named import four_regular_pair, rook, shrikhande
from gnnak.wl import distinguishes, partition
from gnnak.wl.families import cfi_pair, connected_graphs, csl
from gnnak.wl.lab import PlainEmbedder, different, embed
from tests.wl.plain import graphs

BASES = {
    "Petersen": nx.petersen_graph,
    "Heawood": nx.heawood_graph,
    "dodecahedron": nx.dodecahedral_graph,
}


def isomorphic(first, second):
    """Return whether two graphs are isomorphic, by networkx' VF2++."""
    both = []
    for edge_index, num_nodes in (first, second):
        graph = nx.empty_graph(num_nodes)
        graph.add_edges_from(edge_index.T.tolist())
        both.append(graph)
    return nx.vf2pp_is_isomorphic(*both)


def separates(name, pair, **options):
    rows = embed(PlainEmbedder(name, **options), pair)
    return bool(different(rows)[0, 1])


def test_theorem_1_the_subgraph_encoding_is_subgraph_1_wl_star():
    many = [graph for n in range(1, 7) for graph in connected_graphs(n)]
    many += [*four_regular_pair(), rook(), shrikhande(), *csl()]
    network = PlainEmbedder(
        "gin-ak", 1, num_layers=5, base_layers=4, channels=32, encodings=("subgraph",)
    )
    with torch.no_grad():
        told_apart = different(embed(network, many))
    found = torch.tensor(partition("subgraph-1-wl*", many))
    assert torch.equal(told_apart, found[:, None] != found[None, :])


def test_theorem_2_the_two_4_regular_graphs():
    pair = four_regular_pair()
    assert not isomorphic(*pair)
    assert not distinguishes("1-wl", *pair)
    assert not distinguishes("2-wl", *pair)
    assert distinguishes("subgraph-1-wl*", *pair, num_hops=1)


@pytest.mark.heavy
def test_theorem_2_every_csl_pair():
    many = csl()
    for pair in combinations(many, 2):
        assert not isomorphic(*pair)
    assert partition("1-wl", many) == partition("2-wl", many) == [0] * 10
    assert partition("subgraph-1-wl*", many, num_hops=4) == list(range(10))


def test_corollary_of_theorem_2_gin_ak_exceeds_1_wl():
    pair = four_regular_pair()
    assert not separates("gin", pair)
    assert separates("gin-ak", pair)
    assert separates("gin-ak+", pair)


def test_theorem_3_rook_and_shrikhande():
    pair = rook(), shrikhande()
    assert not isomorphic(*pair)
    assert not distinguishes("3-wl", *pair)
    assert not distinguishes("2-fwl", *pair)
    assert not distinguishes("subgraph-1-wl*", *pair, num_hops=1)
    assert distinguishes("subgraph-1-wl", *pair, num_hops=1, hash="3-wl")


def test_corollary_of_theorem_3_ppgn_ak_exceeds_3_wl():
    pair = rook(), shrikhande()
    assert not separates("ppgn", pair)
    assert separates("ppgn-ak", pair)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("num_hops", [1, 2, 3, 4])
def test_theorem_4_cfi_pairs_defeat_the_exact_hash(base, num_hops):
    assert nx.girth(BASES[base]()) >= 5
    pair = cfi_pair(BASES[base]())
    assert not distinguishes("subgraph-1-wl", *pair, num_hops=num_hops)
    assert not distinguishes("subgraph-1-wl", *pair, num_hops=num_hops, d2c=True)


def test_theorem_4_vf2pp_agrees_that_a_cfi_pair_is_not_isomorphic():
    pair = cfi_pair(nx.complete_graph(4))
    assert not isomorphic(*pair)
    assert isomorphic(pair[0], pair[0])
    assert _parity(*pair) == 1


@pytest.mark.heavy
def test_theorem_4_cfi_pairs_are_not_isomorphic_and_defeat_3_wl():
    pair = cfi_pair(nx.petersen_graph())
    assert not distinguishes("2-fwl", *pair)
    assert _parity(*pair) == 1


def _parity(first, second):
    """Count the base edges that are crossed in only one graph of the pair, modulo 2.

    A CFI graph is determined up to isomorphism by this parity (Cai, Fürer and
    Immerman, Lemma 6.2), so 1 means not isomorphic.
    """
    edges = [{tuple(sorted(e)) for e in ends.T.tolist()} for ends, _ in (first, second)]
    return len(edges[0] - edges[1]) // 2 % 2


def egonet_classes(many, num_hops):
    """Return for each graph the multiset of isomorphism classes of its egonets."""
    known, found = [], []
    for graph in many:
        counts = Counter()
        for node in graph:
            ego = nx.ego_graph(graph, node, radius=num_hops)
            same = [nx.vf2pp_is_isomorphic(ego, other) for other in known]
            index = same.index(True) if any(same) else len(known)
            if index == len(known):
                known.append(ego)
            counts[index] += 1
        found.append(counts)
    return found


@pytest.mark.heavy
@settings(max_examples=20, deadline=None)
@given(graphs(max_nodes=7), graphs(max_nodes=7))
def test_proposition_1_different_egonets_are_enough(first, second):
    for num_hops in (1, 2):
        one, other = egonet_classes([first, second], num_hops)
        if one != other:
            assert distinguishes("subgraph-1-wl", first, second, num_hops=num_hops)


@pytest.mark.heavy
@settings(max_examples=15, deadline=None)
@given(graphs(max_nodes=7), graphs(max_nodes=7))
def test_proposition_1_with_a_hash_that_distinguishes_the_egonets(first, second):
    egos = [nx.ego_graph(graph, node) for graph in (first, second) for node in graph]
    for hash in ("1-wl", "3-wl"):
        found = partition(hash, egos)
        one, other = found[: len(first)], found[len(first) :]
        if Counter(one) != Counter(other):
            assert distinguishes("subgraph-1-wl", first, second, hash=hash)

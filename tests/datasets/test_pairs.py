from hashlib import sha256

import networkx as nx
import pytest
import torch

from gnnak.datasets.counting import counting_graphs
from gnnak.datasets.loaders import pattern_graphs
from gnnak.datasets.mixture import property_graphs
from gnnak.datasets.pairs import (
    cfi_graphs,
    count_triangles,
    csl_graphs,
    exp_like_graphs,
    regular_triangles,
)
from gnnak.graphs import GraphFile, to_networkx
from gnnak.graphs.store import with_reverse_edges
from gnnak.wl import partition
from gnnak.wl.families import classes
from tests.graphs.graph_strategies import assert_same


def split_graphs(store):
    both = with_reverse_edges(store)
    edges = both.edge_index.split(both.num_edges.tolist(), dim=1)
    return list(zip(edges, both.num_nodes.tolist(), strict=True))


def test_csl_graphs_are_relabelled_copies_of_ten_classes():
    file = csl_graphs(0).check()
    assert len(file.store) == 150
    assert file.store.num_nodes.tolist() == [41] * 150
    assert file.folds.shape == (5, 150)
    few = file.store.subset(torch.arange(0, 150, 5))
    found = classes(split_graphs(few))
    assert len(set(found)) == 10
    assert len(set(zip(found, few.y.tolist(), strict=True))) == 10


@pytest.mark.heavy
def test_cfi_graphs_are_pairs_alike_to_1_wl_and_unlike():
    file = cfi_graphs(0, copies=2).check()
    graphs = split_graphs(file.store)
    assert file.store.y.tolist() == [0, 1] * (len(graphs) // 2)
    assert torch.equal(file.folds[:, 0::2], file.folds[:, 1::2])
    for first in range(0, 12, 4):
        assert partition("1-wl", graphs[first : first + 2]) == [0, 0]
        assert len(set(classes(graphs[first : first + 4]))) == 2


def colored(store, index):
    graph = nx.Graph(to_networkx(store, index))
    nx.set_node_attributes(
        graph, {n: d["x"][0] for n, d in graph.nodes(data=True)}, "x"
    )
    return graph


def test_exp_like_pairs_are_alike_to_1_wl_and_not_isomorphic():
    file = exp_like_graphs(0, num_pairs=40).check()
    store = with_reverse_edges(file.store)
    assert store.x.unique().tolist() == [0, 1]
    assert torch.equal(file.folds[:, 0::2], file.folds[:, 1::2])
    for index in range(0, len(store), 2):
        first, second = (colored(store, index + i) for i in (0, 1))
        hashes = {
            nx.weisfeiler_lehman_graph_hash(g, node_attr="x", iterations=30)
            for g in (first, second)
        }
        assert len(hashes) == 1
        assert not nx.vf2pp_is_isomorphic(first, second, node_label="x")


def triangle_graphs(seed, num_pairs):
    return GraphFile(regular_triangles(num_pairs, seed))


@pytest.mark.parametrize(
    ("make", "size"),
    [
        *((make, 2) for make in (csl_graphs, cfi_graphs, exp_like_graphs)),
        (triangle_graphs, 5),
        (counting_graphs, 5),
        (property_graphs, 0.002),
        (pattern_graphs, (3, 1, 1)),
    ],
)
def test_generated_graphs_follow_the_seed(make, size):
    assert_same(make(1, size), make(1, size))
    first, other = (make(seed, size).store.edge_index for seed in (1, 2))
    assert first.shape != other.shape or (first != other).any()


def test_regular_triangles_are_regular_and_labelled_right():
    store = regular_triangles(12, seed=3).check()
    for index, label in enumerate(store.y.tolist()):
        graph = nx.Graph(to_networkx(store, index))
        assert set(dict(graph.degree).values()) == {4}
        assert (count_triangles(graph) > 0) == bool(label)


def test_regular_triangles_have_the_same_sizes_in_both_classes():
    store = regular_triangles(10)
    assert torch.equal(store.num_nodes[0::2], store.num_nodes[1::2])


def test_regular_triangles_are_those_of_recorded_runs():
    """Runs recorded in results/ were trained on the graphs with this digest."""
    graphs = regular_triangles(5).edge_index.numpy().tobytes()
    assert sha256(graphs).hexdigest().startswith("e0c2161b4f5f13c3")


def test_regular_triangles_of_no_pairs_is_an_empty_store():
    assert len(regular_triangles(0)) == 0

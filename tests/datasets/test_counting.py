from itertools import combinations, permutations

import networkx as nx
import numpy as np
import pytest
import torch

from gnnak.datasets.counting import (
    SHAPES,
    SUBSTRUCTURES,
    count_substructures,
    counting_graphs,
    regular_edges,
)
from gnnak.errors import GraphError, OptionError
from gnnak.graphs import from_networkx, read_npz
from gnnak.graphs.store import with_reverse_edges


def brute_force(graph: nx.Graph) -> dict[str, int]:
    """Count by trying all choices of nodes."""
    near = graph.has_edge
    triangles = [
        t
        for t in combinations(graph, 3)
        if all(near(a, b) for a, b in combinations(t, 2))
    ]
    tailed = sum(
        near(node, tail) and tail not in triangle
        for triangle in triangles
        for node in triangle
        for tail in graph
    )
    stars = sum(
        all(near(hub, leaf) for leaf in leaves)
        for hub in graph
        for leaves in combinations(set(graph) - {hub}, 3)
    )
    cycles = sum(
        near(a, b) and near(b, c) and near(c, d) and near(d, a)
        for a, b, c, d in permutations(graph, 4)
    )
    return {
        "triangle": len(triangles),
        "tailed-triangle": tailed,
        "star": stars,
        "4-cycle": cycles // 8,
    }


def test_count_substructures_equal_brute_force_on_200_graphs():
    graphs = [
        nx.gnp_random_graph(1 + seed % 8, (seed % 10) / 10, seed=seed)
        for seed in range(200)
    ]
    store = from_networkx(graphs)
    expected = [brute_force(graph) for graph in graphs]
    for name in SUBSTRUCTURES:
        told = count_substructures(store, name).tolist()
        assert told == [counts[name] for counts in expected], name


def test_count_substructures_of_no_graphs_and_of_wrong_ones():
    assert count_substructures(from_networkx([nx.Graph()]), "star").tolist() == [0]
    with pytest.raises(OptionError, match="use one of: triangle"):
        count_substructures(from_networkx([nx.Graph()]), "square")
    for wrong in (nx.DiGraph([(0, 1)]), nx.Graph([(0, 0)])):
        with pytest.raises(GraphError, match="simple undirected graphs"):
            count_substructures(from_networkx([wrong]), "star")


def test_count_substructures_of_the_counting_task(data_dir):
    store = read_npz(data_dir / "counting.npz").store
    counts = torch.stack([count_substructures(store, name) for name in SUBSTRUCTURES])
    assert torch.equal(counts, counts.round())
    assert (counts.mean(dim=1) > 1).all()


@pytest.mark.parametrize(("size", "degree"), SHAPES)
def test_regular_edges_are_simple_and_regular(size, degree):
    edges = regular_edges(size, degree, np.random.default_rng(0))
    assert np.bincount(edges.ravel()).tolist() == [degree] * size
    assert len({*map(tuple, edges.tolist())}) == size * degree // 2
    assert (edges[:, 0] < edges[:, 1]).all()


def test_counting_graphs_have_the_requested_sizes_and_split():
    file = counting_graphs(0, 400).check()
    store = file.store
    degree = dict(SHAPES)
    for nodes, edges in zip(
        store.num_nodes.tolist(), store.num_edges.tolist(), strict=True
    ):
        assert edges == nodes * degree[nodes] // 2 - nodes
    assert file.split.bincount().tolist() == [120, 80, 200]
    assert with_reverse_edges(store).num_edges.double().mean() == pytest.approx(
        62.6, rel=0.03
    )

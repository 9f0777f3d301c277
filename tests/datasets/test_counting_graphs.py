import numpy as np
import pytest

from gnnak.datasets.counting import SHAPES, counting_graphs, regular_edges
from gnnak.graphs.reverse_edges import with_reverse_edges
from tests.graphs.graph_strategies import assert_same


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


def test_counting_graphs_depend_on_the_seed():
    assert_same(counting_graphs(1, 5), counting_graphs(1, 5))
    first, other = (counting_graphs(seed, 5).store.edge_index for seed in (1, 2))
    assert first.shape != other.shape or (first != other).any()

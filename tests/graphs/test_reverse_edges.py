import torch
from hypothesis import given, settings

from gnnak.graphs import GraphStore
from gnnak.graphs.reverse_edges import (
    add_reverse_edges,
    with_reverse_edges,
    without_reverse_edges,
)
from tests.graphs.graph_strategies import assert_same, int_tensor, stores

EMPTY = torch.zeros(2, 0, dtype=torch.long)


def one_graph(edges: list[list[int]], size: int, attr: list | None = None):
    columns = None if attr is None else int_tensor(attr, 1)
    ends = int_tensor(edges, 2).t()
    return GraphStore(int_tensor([size]), int_tensor([len(edges)]), ends, None, columns)


def test_add_reverse_edges_skips_directed_edges():
    ends, origin = add_reverse_edges(
        int_tensor([[0, 0, 1], [1, 2, 1]]), torch.tensor([True, False, True])
    )
    assert ends.tolist() == [[0, 0, 2, 1], [1, 2, 0, 1]]
    assert origin.tolist() == [0, 1, 1, 2]


def test_add_reverse_edges_without_edges():
    ends, origin = add_reverse_edges(EMPTY)
    assert ends.shape == (2, 0)
    assert origin.tolist() == []


def test_with_reverse_edges_attributes_and_counts_by_hand():
    two = GraphStore(
        int_tensor([2, 0, 2]),
        int_tensor([2, 0, 1]),
        int_tensor([[0, 1, 1], [1, 1, 0]]),
        edge_attr=int_tensor([[5], [6], [7]]),
    )
    both = with_reverse_edges(two).check()
    assert both.num_edges.tolist() == [3, 0, 2]
    assert both.edge_index.tolist() == [[0, 1, 1, 1, 0], [1, 0, 1, 0, 1]]
    assert both.edge_attr.tolist() == [[5], [5], [6], [7], [7]]
    assert_same(without_reverse_edges(both), two)


def test_without_reverse_edges_matches_attributes_too():
    crossed = one_graph([[0, 1], [0, 1], [1, 0], [1, 0]], 2, [1, 2, 2, 1])
    once = without_reverse_edges(crossed)
    assert once.edge_index.tolist() == [[0, 0], [1, 1]]
    assert once.edge_attr.tolist() == [[1], [2]]


def test_without_reverse_edges_is_none_if_a_reverse_edge_is_missing():
    assert without_reverse_edges(one_graph([[0, 1]], 2)) is None
    assert without_reverse_edges(one_graph([[0, 1], [0, 1], [1, 0]], 2)) is None
    assert without_reverse_edges(one_graph([[0, 1], [1, 0]], 2, [1, 2])) is None


def test_without_reverse_edges_keeps_every_self_loop():
    assert without_reverse_edges(one_graph([[1, 1], [1, 1]], 2)).num_edges.tolist() == [
        2
    ]


def test_without_reverse_edges_does_not_match_edges_of_two_graphs():
    store = GraphStore(
        int_tensor([2, 2]), int_tensor([1, 1]), int_tensor([[0, 1], [1, 0]])
    )
    assert without_reverse_edges(store) is None


@given(stores())
@settings(deadline=None)
def test_without_reverse_edges_inverts_with_reverse_edges(store):
    assert_same(without_reverse_edges(with_reverse_edges(store).check()), store)

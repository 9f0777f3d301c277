import torch
from hypothesis import given, settings

from gnnak.graphs import GraphStore
from gnnak.graphs.mirror import mirror_edges, mirrored, unmirrored
from tests.graphs.graph_strategies import assert_same, int_tensor, stores

EMPTY = torch.zeros(2, 0, dtype=torch.long)


def one_graph(edges: list[list[int]], size: int, attr: list | None = None):
    columns = None if attr is None else int_tensor(attr, 1)
    ends = int_tensor(edges, 2).t()
    return GraphStore(int_tensor([size]), int_tensor([len(edges)]), ends, None, columns)


def test_mirror_edges_directed_ones_stay_alone():
    ends, origin = mirror_edges(
        int_tensor([[0, 0, 1], [1, 2, 1]]), torch.tensor([True, False, True])
    )
    assert ends.tolist() == [[0, 0, 2, 1], [1, 2, 0, 1]]
    assert origin.tolist() == [0, 1, 1, 2]


def test_mirror_edges_no_edges():
    ends, origin = mirror_edges(EMPTY)
    assert ends.shape == (2, 0)
    assert origin.tolist() == []


def test_mirrored_attributes_and_counts_by_hand():
    two = GraphStore(
        int_tensor([2, 0, 2]),
        int_tensor([2, 0, 1]),
        int_tensor([[0, 1, 1], [1, 1, 0]]),
        edge_attr=int_tensor([[5], [6], [7]]),
    )
    both = mirrored(two).check()
    assert both.num_edges.tolist() == [3, 0, 2]
    assert both.edge_index.tolist() == [[0, 1, 1, 1, 0], [1, 0, 1, 0, 1]]
    assert both.edge_attr.tolist() == [[5], [5], [6], [7], [7]]
    assert_same(unmirrored(both), two)


def test_unmirrored_pairs_by_attributes_too():
    crossed = one_graph([[0, 1], [0, 1], [1, 0], [1, 0]], 2, [1, 2, 2, 1])
    once = unmirrored(crossed)
    assert once.edge_index.tolist() == [[0, 0], [1, 1]]
    assert once.edge_attr.tolist() == [[1], [2]]


def test_unmirrored_none_where_an_edge_has_no_mirror():
    assert unmirrored(one_graph([[0, 1]], 2)) is None
    assert unmirrored(one_graph([[0, 1], [0, 1], [1, 0]], 2)) is None
    assert unmirrored(one_graph([[0, 1], [1, 0]], 2, [1, 2])) is None


def test_unmirrored_keeps_every_self_loop():
    assert unmirrored(one_graph([[1, 1], [1, 1]], 2)).num_edges.tolist() == [2]


def test_unmirrored_mirrors_in_two_graphs_do_not_match():
    store = GraphStore(
        int_tensor([2, 2]), int_tensor([1, 1]), int_tensor([[0, 1], [1, 0]])
    )
    assert unmirrored(store) is None


@given(stores())
@settings(deadline=None)
def test_unmirrored_is_the_inverse_of_mirrored(store):
    assert_same(unmirrored(mirrored(store).check()), store)

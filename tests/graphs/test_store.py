import copy
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch

from gnnak.errors import GraphError
from gnnak.graphs import GraphStore, to_pyg
from gnnak.graphs.store import (
    add_reverse_edges,
    with_reverse_edges,
    without_reverse_edges,
)
from tests.gpu import needs_gpu
from tests.graphs.graph_strategies import assert_same, int_tensor, stores


@pytest.fixture
def store() -> GraphStore:
    """A path, an empty graph, a single node, a self loop beside a node, and empty."""
    return GraphStore(
        num_nodes=int_tensor([3, 0, 1, 2, 0]),
        num_edges=int_tensor([4, 0, 0, 1, 0]),
        edge_index=int_tensor([[0, 1, 1, 2, 1], [1, 0, 2, 1, 1]]),
        x=int_tensor([[10], [11], [12], [20], [30], [31]]),
        edge_attr=int_tensor([[1], [1], [2], [2], [3]]),
        y=torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0]),
    ).check()


NONE = GraphStore(int_tensor([]), int_tensor([]), torch.zeros(2, 0, dtype=torch.long))


def test_getitem_all_fields_by_hand(store):
    batch = store[[3, 1, 0, 3, 4]].check()
    assert batch.x.tolist() == [[30], [31], [10], [11], [12], [30], [31]]
    assert batch.edge_index.tolist() == [[1, 2, 3, 3, 4, 6], [1, 3, 2, 4, 3, 6]]
    assert batch.edge_attr.tolist() == [[3], [1], [1], [2], [2], [3]]
    assert batch.y.tolist() == [1.5, 0.5, 0.0, 1.5, 2.0]
    assert batch.batch.tolist() == [0, 0, 2, 2, 2, 3, 3]
    assert batch.ptr.tolist() == [0, 2, 2, 5, 7, 7]


def test_getitem_counts_trailing_empty_graphs(store):
    assert store[3:].num_graphs == 2
    assert store[[1, 4]].num_graphs == 2
    assert store[[1, 4]].num_nodes == 0


@pytest.mark.parametrize(
    ("indices", "graphs"),
    [
        (0, [0]),
        (-1, [4]),
        (np.int64(2), [2]),
        (slice(None), [0, 1, 2, 3, 4]),
        (slice(None, None, -2), [4, 2, 0]),
        (slice(4, 1), []),
        ([], []),
        ([-5, 4, 4], [0, 4, 4]),
        (range(2), [0, 1]),
        (torch.tensor(3), [3]),
        (torch.tensor([1, -2], dtype=torch.int32), [1, 3]),
        (np.array([2, 0]), [2, 0]),
        ([True, False, False, True, False], [0, 3]),
        (torch.tensor([False] * 5), []),
    ],
    ids=str,
)
def test_subset_every_kind_of_index(store, indices, graphs):
    assert store.subset(indices).check().y.tolist() == [graph / 2 for graph in graphs]


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        (5, "index 5 is out of range; there are 5 graphs."),
        ([0, -6], "index -6 is out of range; there are 5 graphs."),
        ([True], "the mask has 1 entries; give 5, one per graph."),
        (torch.zeros(0, dtype=torch.bool), "the mask has 0 entries"),
        (True, "cannot select graphs; give an int, a slice, a list"),
        (1.0, "cannot select graphs"),
        ("01", "cannot select graphs"),
        (None, "cannot select graphs"),
        ([[0, 1]], "with one dimension."),
        (slice(None, None, 0), "slice step cannot be zero."),
        (slice("a", None), "cannot select graphs"),
        ([1 << 70], "cannot select graphs"),
    ],
    ids=str,
)
def test_getitem_raises_a_clear_error(store, indices, message):
    with pytest.raises(GraphError, match=re.escape(message)):
        store[indices]


def test_getitem_empty_store():
    assert len(NONE.check()) == 0
    batch = NONE[:].check()
    assert (batch.num_graphs, batch.num_nodes, batch.num_edges) == (0, 0, 0)
    assert batch.ptr.tolist() == [0]
    with pytest.raises(GraphError, match="index 0 is out of range; there are 0"):
        NONE[0]


def test_iter_gives_every_graph_once(store):
    assert [one.num_nodes for one in store] == [3, 0, 1, 2, 0]


def test_union_is_all_graphs(store):
    assert_same(store.union().check(), store[:])
    assert store.union().x is store.x


def test_node_targets_follow_nodes(store):
    y = torch.arange(6).reshape(6, 1)
    by_node = replace(store, y=y, node_targets=True).check()
    assert by_node[[2, 0]].y.tolist() == [[3], [0], [1], [2]]
    assert "node_targets=True" in repr(by_node)
    without_x = replace(by_node, x=None)
    assert without_x[[2, 0]].y.tolist() == [[3], [0], [1], [2]]


def test_node_targets_decide_where_nodes_and_graphs_are_as_many():
    ones = GraphStore(int_tensor([2, 0]), int_tensor([0, 0]), NONE.edge_index)
    y = int_tensor([7, 8])
    assert replace(ones, y=y).check()[[1]].y.tolist() == [8]
    by_node = replace(ones, y=y, node_targets=True).check()
    assert by_node[[0]].y.tolist() == [7, 8]
    assert by_node[[1]].y.tolist() == []


def test_repr_tells(store):
    assert repr(store) == (
        "GraphStore(graphs=5, nodes=6, edges=5, x=[6, 1], edge_attr=[5, 1], y=[5], "
        "device='cpu')"
    )


def test_to_keeps_everything(store):
    assert_same(store.to("cpu"), store)
    assert store.to("meta").x.device.type == "meta"
    assert store.to("meta").node_ptr.device.type == "meta"


def test_concatenate_is_the_inverse_of_subset(store):
    parts = [store.subset(slice(0, 2)), store.subset([2]), store.subset(slice(3, 5))]
    assert_same(GraphStore.concatenate(parts).check(), store)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": None}, "x is torch.int64 [*, 1] on cpu in store 0 but None in store 1"),
        ({"x": torch.zeros(6, 1)}, "but torch.float32 [*, 1] on cpu in store 1"),
        ({"edge_attr": int_tensor([[1, 2]] * 5)}, "[*, 2] on cpu in store 1"),
        ({"y": int_tensor([0] * 6), "node_targets": True}, "y is"),
    ],
)
def test_concatenate_raises_if_stores_differ(store, change, message):
    with pytest.raises(GraphError, match=re.escape(message)):
        GraphStore.concatenate([store, replace(store, **change).check()])


def test_concatenate_nothing():
    with pytest.raises(GraphError, match="give at least one"):
        GraphStore.concatenate([])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_nodes": [3]}, "num_nodes is a list; give a tensor."),
        ({"num_nodes": torch.ones(5)}, "num_nodes is torch.float32 of shape [5]"),
        ({"num_nodes": int_tensor([3, 0, 1, -2, 0])}, "num_nodes[3] is -2"),
        ({"num_nodes": int_tensor([1 << 62] * 5)}, "the sum would overflow int64"),
        ({"num_edges": int_tensor([4, 0])}, "num_nodes has 5 entries and num_edges 2"),
        ({"num_edges": int_tensor([4, 0, 0, 2, 0])}, "num_edges adds up to 6"),
        ({"num_edges": int_tensor([4, 0, 1, 0, 0])}, "1 and 1 in graph 2, which has 1"),
        ({"edge_index": torch.zeros(3, 5)}, "edge_index has shape [3, 5]"),
        ({"edge_index": torch.zeros(2, 5)}, "edge_index has dtype torch.float32"),
        ({"edge_index": -int_tensor([[0, 1, 1, 2, 1]] * 2)}, "nodes -1 and -1 in"),
        ({"x": torch.zeros(5, 1)}, "x has 5 rows; give 6, one for every node."),
        ({"x": torch.zeros(6)}, "x has shape [6]; give [n, c], one row for every"),
        ({"edge_attr": torch.zeros(6, 1)}, "edge_attr has 6 rows; give 5"),
        (
            {"y": torch.zeros(6)},
            "give 5, one for every graph, or set node_targets",
        ),
        ({"y": torch.tensor(1.0)}, "y has shape []; give [g, ...]"),
        ({"node_targets": True}, "y has 5 rows; give 6, one for every node."),
        ({"y": None, "node_targets": True}, "there is no y, but node_targets=True"),
        ({"x": torch.zeros(6, 1, device="meta")}, "x is on meta, the other fields on"),
    ],
)
def test_check_raises_a_clear_error(store, change, message):
    with pytest.raises(GraphError, match=re.escape(message)):
        replace(store, **change).check()


@given(stores(), st.data())
@settings(deadline=None)
def test_getitem_equals_pyg_batch(store, data):
    index = st.integers(-len(store), max(len(store) - 1, 0))
    chosen = data.draw(st.lists(index, max_size=6 if len(store) else 0))
    before = copy.deepcopy(store)
    ours = store[chosen].check()
    assert_same(store, before)
    if not chosen:
        assert ours.num_graphs == 0
        return
    graphs = to_pyg(store)
    theirs = Batch.from_data_list([graphs[index] for index in chosen])
    for name in ("x", "edge_index", "edge_attr", "y", "batch", "ptr"):
        one, other = getattr(ours, name), getattr(theirs, name)
        assert (one is None) == (other is None)
        assert one is None or (one.tolist(), one.dtype) == (other.tolist(), other.dtype)
    for name in ("num_graphs", "num_nodes", "num_edges"):
        assert getattr(ours, name) == getattr(theirs, name)


@given(stores())
@settings(deadline=None)
def test_subset_in_parts_and_back(store):
    parts = [store.subset(index) for index in range(len(store))]
    assert_same(GraphStore.concatenate([store.subset([]), *parts]).check(), store)


@needs_gpu
def test_getitem_on_a_gpu_equals_the_cpu(store):
    indices = torch.tensor([3, -1, 0, 0])
    there = store.to("cuda")
    for chosen in (indices, indices.cuda(), indices.tolist(), slice(None, None, -1)):
        assert there[chosen].device.type == "cuda"
        assert_same(there[chosen].check().to("cpu"), store[chosen])
    assert_same(there.check().union().to("cpu"), store.union())


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
    once = without_reverse_edges(one_graph([[1, 1], [1, 1]], 2))
    assert once.num_edges.tolist() == [2]


def test_without_reverse_edges_does_not_match_edges_of_two_graphs():
    ends = int_tensor([[0, 1], [1, 0]])
    store = GraphStore(int_tensor([2, 2]), int_tensor([1, 1]), ends)
    assert without_reverse_edges(store) is None


@given(stores())
@settings(deadline=None)
def test_without_reverse_edges_inverts_with_reverse_edges(store):
    assert_same(without_reverse_edges(with_reverse_edges(store).check()), store)

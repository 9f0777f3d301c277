import copy
import pickle
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnak import EgoNets, SubgraphDrop
from gnnak.errors import SubgraphError
from gnnak.fast.layers.parts import edges_of
from gnnak.graphs import GraphStore
from gnnak.graphs.real import RealCounts
from gnnak.loading.windows import make_window, split
from gnnak.subgraphs.groups import GroupKey, Groups, group, group_each
from gnnak.subgraphs.rooted import TENSORS, Axis, RootedSubgraphs
from tests.operation_counts import OperationCount
from tests.strategies import graphs


def members(groups: Groups, rows: int) -> list[list[int]]:
    order = list(range(rows)) if groups.order is None else groups.order.tolist()
    ptr = groups.ptr.tolist()
    return [order[ptr[k] : ptr[k + 1]] for k in range(len(groups))]


@given(graphs())
def test_every_axis(graph: tuple[torch.Tensor, int]) -> None:
    edge_index, num_nodes = graph
    subs = EgoNets(2)(edge_index, num_nodes)
    keys = {
        "subgraph": (subs.subgraph, subs.num_subgraphs),
        "node": (subs.node, num_nodes),
        "target": (subs.edge_index[1], subs.num_copies),
        "source": (subs.edge_index[0], subs.num_copies),
        "edge": (subs.edge, edge_index.size(1)),
    }
    for axis, (key, size) in keys.items():
        named = key.tolist()
        wanted = [[i for i, k in enumerate(named) if k == g] for g in range(size)]
        assert members(subs.by(axis), len(named)) == wanted


@st.composite
def keys(draw: st.DrawFn) -> list[GroupKey]:
    """Up to four keys, sorted or not, maybe without rows or groups."""
    found = []
    for _ in range(draw(st.integers(0, 4))):
        size = draw(st.integers(0, 5))
        rows = draw(st.lists(st.integers(0, size - 1), max_size=8)) if size else []
        in_order = draw(st.booleans())
        key = torch.tensor(sorted(rows) if in_order else rows, dtype=torch.long)
        found.append(GroupKey(key, size, in_order))
    return found


def assert_same(one: Groups, other: Groups) -> None:
    assert torch.equal(one.ptr, other.ptr)
    assert one.ptr.dtype == other.ptr.dtype == torch.long
    assert (one.order is None) == (other.order is None)
    if one.order is not None and other.order is not None:
        assert torch.equal(one.order, other.order)
        assert one.order.dtype == other.order.dtype == torch.long


@given(keys())
def test_group_each_equals_group_of_each(given_keys: list[GroupKey]) -> None:
    found = group_each(given_keys)
    for each, key in zip(found, given_keys, strict=True):
        assert_same(each, group(*key))
        parts = [each.ptr] if each.order is None else [each.ptr, each.order]
        for part in parts:
            # Kernels read tensors that begin at an aligned address.
            assert part.storage_offset() == 0


@given(graphs(), st.booleans())
def test_group_by_equals_by(graph: tuple[torch.Tensor, int], sampled: bool) -> None:
    edge_index, num_nodes = graph
    subs: RootedSubgraphs = EgoNets(2)(edge_index, num_nodes)
    axes: list[Axis] = ["subgraph", "node", "target", "source", "edge"]
    if sampled and num_nodes:
        generator = torch.Generator().manual_seed(0)
        subs = SubgraphDrop("random", 1)(subs, edge_index, generator)
        axes += ["taker", "giver"]
    wanted = [replace(subs).by(axis) for axis in axes]
    first = subs.by("source")
    subs.group_by(axes)
    assert subs.by("source") is first
    for axis, groups in zip(axes, wanted, strict=True):
        assert axis in subs.derived.by
        assert_same(subs.by(axis), groups)


def test_group_by_sorts_once() -> None:
    subs = EgoNets(2)(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)
    with OperationCount() as count:
        subs.group_by(["node", "target", "source", "edge"])
    assert count.names.count("sort.stable") == 1
    with OperationCount() as count:
        subs.group_by(["node", "source"])
        subs.by("node")
    assert count.total == 0


def test_group_by_leaves_padded_subgraphs_alone() -> None:
    subs = EgoNets(2)(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)
    padded = replace(subs, real=RealCounts(torch.zeros(6).long()))
    padded.group_by(["node", "source"])
    assert not padded.derived.by


def test_grouping_without_num_nodes_raises() -> None:
    subs = EgoNets(1)(torch.tensor([[0], [1]]), 2)
    fields = (subs.root, subs.node, subs.subgraph, subs.hop, subs.edge_index, subs.edge)
    with pytest.raises(SubgraphError, match="num_nodes"):
        RootedSubgraphs(*fields).by("node")


PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def first_of_8_batches(sampled):
    store = GraphStore(torch.tensor([3] * 8), torch.tensor([4] * 8), PATH.repeat(1, 8))
    graphs = store[torch.arange(8)]
    subgraphs = EgoNets(1)(graphs.edge_index, graphs.num_nodes)
    if sampled:
        subgraphs = SubgraphDrop("random", 1)(subgraphs, graphs.edge_index)
    return split(make_window(graphs, subgraphs, [1] * 8), groups=True)[0].subgraphs


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize(
    "way", [copy.deepcopy, lambda whole: pickle.loads(pickle.dumps(whole))]
)
def test_copies_of_one_batch_do_not_contain_the_others(way, sampled):
    subgraphs = first_of_8_batches(sampled)
    edges_of(subgraphs, None)  # caches views of other tensors
    size = len(pickle.dumps(first_of_8_batches(sampled)))
    assert len(pickle.dumps(subgraphs)) < 1.2 * size
    copied = way(subgraphs)
    for name in TENSORS:
        mine, theirs = getattr(copied, name), getattr(subgraphs, name)
        assert torch.equal(mine, theirs)
        assert mine.untyped_storage().nbytes() == mine.nbytes
    mine, theirs = copied.by("node"), subgraphs.by("node")
    assert torch.equal(mine.ptr, theirs.ptr)
    assert torch.equal(mine.order, theirs.order)
    assert mine.ptr.untyped_storage().nbytes() == mine.ptr.nbytes
    if sampled:
        part = copied.filling.node
        assert torch.equal(part, subgraphs.filling.node)
        assert part.untyped_storage().nbytes() == part.nbytes


def test_a_shallow_copy_shares_all_tensors():
    subgraphs = first_of_8_batches(sampled=False)
    copied = copy.copy(subgraphs)
    assert all(getattr(copied, name) is getattr(subgraphs, name) for name in TENSORS)
    assert copied.centroid is subgraphs.centroid

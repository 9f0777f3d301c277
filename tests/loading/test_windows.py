"""Windows split into batches, against batches assembled one by one."""

from dataclasses import fields, is_dataclass, replace
from itertools import accumulate, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from gnnak import EgoNets
from gnnak.graphs import GraphStore
from gnnak.graphs.named import undirected
from gnnak.loading.padder import Shapes
from gnnak.loading.windows import (
    GROUPS,
    SAMPLED_GROUPS,
    make_window,
    split,
    split_padded,
)
from gnnak.sampling.drop import SubgraphDrop, sample_subgraphs
from gnnak.sampling.estimate import Filling, SampledSubgraphs
from gnnak.sampling.random_roots import is_cover
from gnnak.subgraphs.cached import cache_subgraphs
from gnnak.subgraphs.groups import Groups
from tests.graphs.graph_strategies import assert_same, stores
from tests.training.small import triangles


@st.composite
def windows(draw):
    """A store, and the positions of the graphs of a few batches."""
    store = draw(stores())
    position = st.integers(0, max(len(store) - 1, 0))
    batch = st.lists(position, max_size=3 if len(store) else 0)
    return store, draw(st.lists(batch, min_size=1, max_size=4))


def positions_of(batches):
    flat = [position for batch in batches for position in batch]
    return torch.tensor(flat, dtype=torch.long)


def window_of(store: GraphStore, batches, subgraphs):
    sizes = [len(batch) for batch in batches]
    return make_window(
        store[positions_of(batches)], subgraphs, sizes, store.node_targets
    )


def assert_same_tensors(first, second):
    for field in fields(first):
        one, other = getattr(first, field.name), getattr(second, field.name)
        if isinstance(one, Filling | Groups):
            assert_same_tensors(one, other)
        elif isinstance(one, torch.Tensor):
            assert one.dtype == other.dtype, field.name
            assert torch.equal(one, other), field.name
        else:
            assert one == other, field.name


def assert_same_records(part, alone, groups):
    assert type(part) is type(alone)
    assert_same_tensors(part, alone)
    if groups:
        axes = [*GROUPS]
        if isinstance(alone, SampledSubgraphs):
            axes += SAMPLED_GROUPS
        known = part.derived
        assert None not in (known.max_hop, known.in_order)
        assert known.centroid is not None
        assert known.by.keys() | {"edge"} == set(axes)
        assert alone.in_order or not part.in_order
        assert torch.equal(part.centroid, alone.centroid)
        for axis in axes:
            assert_same_tensors(part.by(axis), alone.by(axis))


@given(windows(), st.booleans(), st.data())
@settings(max_examples=80, deadline=None)
def test_split_equals_each_batch_assembled_alone(window, groups, data):
    store, batches = window
    cached = cache_subgraphs(store, EgoNets(2))
    whole = cached[positions_of(batches)]
    first_batch = data.draw(st.integers(0, len(batches)))
    items = split(window_of(store, batches, whole), groups, first_batch)
    assert len(items) == len(batches) - first_batch
    for item, batch in zip(items, batches[first_batch:], strict=True):
        indices = torch.tensor(batch, dtype=torch.long)
        assert_same(item.batch, store[indices])
        assert_same_records(item.subgraphs, cached[indices], groups)
        assert item.subgraphs.max_hop == whole.max_hop
        assert item.shape is None


@given(windows(), st.booleans(), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_split_equals_sampled_subgraphs_of_each_batch(window, groups, seed):
    store, batches = window
    cached, drop = cache_subgraphs(store, EgoNets(1)), SubgraphDrop("random", 2)
    graphs, whole = store[positions_of(batches)], cached[positions_of(batches)]
    generator = torch.Generator().manual_seed(seed)
    plan = drop.plan(whole, graphs.edge_index)
    sampled = drop.sample_mask(whole, plan, generator)
    few = sample_subgraphs(whole, graphs.edge_index, sampled)
    items = split(window_of(store, batches, few), groups)
    ends = [0, *accumulate(len(batch) for batch in batches)]
    for item, (begin, end) in zip(items, pairwise(ends), strict=True):
        indices = positions_of(batches)[begin:end]
        alone, full = store[indices], cached[indices]
        mask = sampled[graphs.ptr[begin] : graphs.ptr[end]]
        assert is_cover(full, alone.num_nodes, mask, 2)
        wanted = sample_subgraphs(full, alone.edge_index, mask)
        assert_same_records(item.subgraphs, wanted, groups)


@pytest.mark.parametrize("sizes", [[3, 0, 2], [5], [1, 1, 1, 1, 1]])
def test_split_of_graphs_without_subgraphs(sizes):
    one = GraphStore(
        torch.tensor([2, 0, 1, 3, 2]),
        torch.tensor([2, 0, 0, 1, 0]),
        torch.tensor([[0, 1, 2], [1, 0, 0]]),
        y=torch.arange(5.0),
    )
    items = split(make_window(one[:], None, sizes))
    begin = 0
    for item, size in zip(items, sizes, strict=True):
        assert_same(item.batch, one[begin : begin + size])
        assert item.subgraphs is None
        begin += size


def faked(value, mode):
    """A record with fake tensors: to copy a value to the host is an error."""
    if isinstance(value, torch.Tensor):
        return mode.from_tensor(value)
    if isinstance(value, dict):
        return {key: faked(part, mode) for key, part in value.items()}
    if not is_dataclass(value):
        return value
    parts = {f.name: faked(getattr(value, f.name), mode) for f in fields(value)}
    return replace(value, **parts)


@given(windows(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_make_window_needs_no_device_if_the_sizes_are_known(window, with_subgraphs):
    store, batches = window
    positions, sizes = positions_of(batches), [len(batch) for batch in batches]
    graphs, subgraphs, counts = store[positions], None, store.counts[:, positions]
    if with_subgraphs:
        cached = cache_subgraphs(store, EgoNets(2))
        subgraphs, counts = cached[positions], cached.counts[:, positions]
    wanted = make_window(graphs, subgraphs, sizes)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        unknown = faked(graphs, mode)
    if subgraphs is not None:
        known = {"max_hop": subgraphs.max_hop}
        with mode:
            subgraphs = faked(subgraphs, mode).assume(**known)
    found = make_window(unknown, subgraphs, sizes, counts=counts)
    assert found.starts == wanted.starts
    if with_subgraphs:
        assert found.known == wanted.known


@pytest.mark.parametrize("sampled", [False, True])
def test_split_and_split_padded_do_not_synchronise(sampled):
    store = triangles(3).store
    graphs, subgraphs = store[:], cache_subgraphs(store, EgoNets(1))[:]
    if sampled:
        subgraphs = SubgraphDrop("random", 1)(subgraphs, graphs.edge_index)
    window = make_window(graphs, subgraphs, [3, 3])
    shapes = Shapes().of(window, 2, 2)
    with FakeTensorMode() as mode:
        unknown = faked(window, mode)
        items = split_padded(unknown, shapes) + split(unknown, groups=True)
        with pytest.raises(RuntimeError, match="_local_scalar_dense"):
            items[0].batch.ptr.tolist()
    assert [item.batch.num_graphs for item in items] == [4, 4, 3, 3]
    assert items[0].subgraphs.num_copies == shapes[0].copies


@pytest.mark.parametrize("with_features", [False, True])
def test_subgraphs_are_grouped_by_edge_if_edges_have_features(with_features):
    edge_index, nodes = undirected([(0, 1), (1, 2)], 3)
    features = torch.rand(4, 2) if with_features else None
    sizes = torch.tensor([3]), torch.tensor([4])
    store = GraphStore(*sizes, edge_index, edge_attr=features)
    graphs = store[torch.arange(1)]
    window = make_window(graphs, EgoNets(1)(edge_index, nodes), [1])
    (part,) = split(window, groups=True)
    assert ("edge" in part.subgraphs.derived.by) == with_features

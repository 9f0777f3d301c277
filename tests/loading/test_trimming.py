"""Batches without padding that are views of padded batches."""

from unittest import mock

import pytest
import torch

from gnnak.loading import padder
from gnnak.loading.items import tensors_of
from gnnak.loading.padder import Shapes
from gnnak.loading.splitting import GROUPS, SAMPLED_GROUPS, split, split_both
from gnnak.loading.windows import make_window
from gnnak.subgraphs.rooted import RootedSubgraphs
from tests.loading.test_padding import NEAR, molecule_store, window_of
from tests.loading.test_windows import assert_same_tensors


def both_and_alone(sampled=False, extractor=NEAR, until=3):
    """Padded batches, their views without padding, and batches split without it."""
    store = molecule_store(2)
    count = len(store) // 2
    window = window_of(store, [count, count - 2, 2], sampled, extractor)
    with mock.patch.multiple(padder, LEAST_STEP=4):
        shapes = Shapes().of(window, until=until, full=1)
    alone = split(window, groups=extractor is not None)
    return *split_both(window, shapes), alone


@pytest.mark.parametrize("sampled", [False, True])
def test_views_equal_batches_split_without_padding(sampled):
    _, views, alone = both_and_alone(sampled)
    assert len(views) == len(alone) == 3
    for view, item in zip(views, alone, strict=True):
        assert (
            view.shape is view.sizes is view.batch.real is view.subgraphs.real is None
        )
        assert_same_tensors(view.batch, item.batch)
        assert_same_tensors(view.subgraphs, item.subgraphs)
        axes = [*GROUPS, *(SAMPLED_GROUPS if sampled else ())]
        for axis in axes:
            assert_same_tensors(view.subgraphs.by(axis), item.subgraphs.by(axis))
        assert torch.equal(view.subgraphs.centroid, item.subgraphs.centroid)
        assert view.subgraphs.max_hop == item.subgraphs.max_hop
        view.subgraphs.check(view.batch.edge_index, view.batch.num_nodes)


@pytest.mark.parametrize("sampled", [False, True])
def test_views_take_no_memory_of_their_own(sampled):
    padded, views, _ = both_and_alone(sampled)
    for item, view in zip(padded, views, strict=True):
        kept = {t.untyped_storage().data_ptr() for t in tensors_of(item)}
        assert {t.untyped_storage().data_ptr() for t in tensors_of(view)} <= kept


def test_views_without_subgraphs():
    _, views, alone = both_and_alone(extractor=None)
    for view, item in zip(views, alone, strict=True):
        assert view.subgraphs is None
        assert_same_tensors(view.batch, item.batch)


def test_a_last_batch_without_shape_has_no_view():
    padded, views, _ = both_and_alone(until=2)
    assert len(padded) == len(views) == 2


def test_views_of_further_fields():
    store = molecule_store(2)
    graphs, sizes = store[torch.arange(len(store))], [len(store) - 2, 2]
    extra = {"pos": ("nodes", torch.rand(graphs.num_nodes, 3))}
    window = make_window(graphs, None, sizes, extra=extra)
    _, views = split_both(window, Shapes().of(window, until=2, full=1))
    for view, item in zip(views, split(window), strict=True):
        assert torch.equal(view.extra["pos"], item.extra["pos"])


def test_a_tensor_that_serves_as_several_fields_is_split_for_each():
    store = molecule_store(1)
    graphs = store[torch.arange(len(store))]
    nodes = torch.arange(graphs.num_nodes)
    none = torch.zeros(2, 0, dtype=torch.long)
    given = (none, none[0], graphs.num_nodes, graphs.num_edges)
    alone = RootedSubgraphs(nodes, nodes, nodes, torch.zeros_like(nodes), *given)
    window = make_window(graphs, alone, [len(store)])
    padded, views = split_both(window, Shapes().of(window, until=1, full=1))
    padded[0].subgraphs.check()
    assert_same_tensors(views[0].subgraphs, split(window)[0].subgraphs)

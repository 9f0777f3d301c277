"""Operations of PyTorch per batch: on a GPU, each takes the host a few microseconds."""

import pytest
import torch

from gnnak import EgoNets, GraphLoader
from gnnak.loading.padder import Shapes
from gnnak.loading.windows import make_window, split, split_both
from gnnak.subgraphs.cached import cache_subgraphs
from tests.operation_counts import OperationCount
from tests.training.small import triangles


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("subgraphs", [None, EgoNets(1)])
def test_a_pyg_batch_is_made_without_an_operation(pad, subgraphs):
    loader = GraphLoader(triangles().store, 8, subgraphs=subgraphs, pad=pad)
    windows = loader._windows.of_epoch(0, len(loader), more=False)
    assembled = [each for window in windows for each in window]
    with OperationCount(views=True) as operations:
        batches = [loader._maker.make(*each) for each in assembled]
    assert operations.total == 0
    assert [batch.num_graphs for batch in batches] == [8, 8, 8, 8]


@pytest.mark.parametrize(("pad", "most"), [(False, 70), (True, 220)])
def test_a_window_is_split_into_batches_with_few_operations(pad, most):
    store = triangles().store
    graphs, subgraphs = store[:], cache_subgraphs(store, EgoNets(1))[:]
    window = make_window(graphs, subgraphs, [8, 8, 8, 8])
    shapes = Shapes().of(window, until=4, full=4)
    split(window, groups=True)  # caches the groupings of all subgraphs
    with OperationCount(views=True) as operations:
        if pad:
            split_both(window, shapes)
        else:
            split(window, groups=True)
    assert operations.total <= most


def test_graphs_and_cached_subgraphs_are_gathered_with_few_operations():
    store = triangles().store
    cached, positions = cache_subgraphs(store, EgoNets(1)), torch.arange(8)
    first = store[positions], cached[positions]  # caches row pointers
    for source, whole, most in zip((store, cached), first, (29, 41), strict=True):
        with OperationCount(views=True) as operations:
            found = source[positions]
        assert torch.equal(found.edge_index, whole.edge_index)
        assert operations.total <= most, operations.names

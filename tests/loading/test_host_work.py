"""Operations of PyTorch per batch: on a GPU, each takes the host a few microseconds."""

from collections import Counter

import pytest
from torch.utils._python_dispatch import TorchDispatchMode

from gnnak import EgoNets, GraphLoader
from tests.training.small import triangles


class Operations(TorchDispatchMode):
    """Counts the operations of PyTorch in a `with` block, by name."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.counts[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("subgraphs", [None, EgoNets(1)])
def test_a_pyg_batch_is_made_without_an_operation(pad, subgraphs):
    loader = GraphLoader(triangles().store, 8, subgraphs=subgraphs, pad=pad)
    windows = loader._windows.of_epoch(0, len(loader), more=False)
    assembled = [each for window in windows for each in window]
    with Operations() as operations:
        batches = [loader._make(each) for each in assembled]
    assert not operations.counts
    assert [batch.num_graphs for batch in batches] == [8, 8, 8, 8]

import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset

from gnnak import GraphLoader

GRAPH = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))


class Rings(InMemoryDataset):
    """A PyG data set in memory."""

    def __init__(self, transform=None) -> None:
        super().__init__(None, transform)
        self.data, self.slices = self.collate([GRAPH] * 3)


def add_noise(graph: Data) -> Data:
    return Data(x=graph.x + torch.rand(2, 1), edge_index=graph.edge_index)


@pytest.mark.parametrize("part", [lambda d: d, lambda d: d[:2]])
def test_a_transform_that_is_applied_once_is_told_once(part, caplog):
    loader = GraphLoader(part(Rings(add_noise)), 3)
    one, other = (next(iter(loader)).x for _ in range(2))
    assert torch.equal(one, other)
    (record,) = caplog.records
    assert record.name == "gnnak"
    assert "the transform of Rings is applied once" in record.getMessage()


def test_data_sets_without_a_transform_are_read_without_a_warning(caplog):
    GraphLoader(Rings(), 3)
    GraphLoader([GRAPH] * 2)
    assert not caplog.records

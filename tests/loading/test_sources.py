import pytest
import torch
from torch.utils.data import Subset, random_split
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


@pytest.mark.parametrize(
    "part", [lambda d: d, lambda d: d[:2], lambda d: Subset(Subset(d, [0, 2]), [1])]
)
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


def test_parts_of_a_random_split_are_read():
    graphs = [Data(x=torch.full((1, 1), float(n)), y=torch.ones(1)) for n in range(5)]
    parts = random_split(graphs, [3, 2], torch.Generator().manual_seed(0))
    found = [next(iter(GraphLoader(part, 5))).x.flatten().tolist() for part in parts]
    wanted = [[float(number) for number in part.indices] for part in parts]
    assert found == wanted

from dataclasses import replace

import pytest
import torch
from torch.utils.data import (
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    random_split,
)
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.loader import DataLoader

from gnnak import EgoNets, GraphLoader
from gnnak.errors import GraphError
from gnnak.graphs import GraphStore, from_pyg
from tests.loading.test_graph_loader import assert_same_batch

GRAPH = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))


class Rings(InMemoryDataset):
    def __init__(self, transform=None, graphs=(GRAPH,) * 3) -> None:
        super().__init__(None, transform)
        self.data, self.slices = self.collate([*graphs])


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


BROKEN = {
    "edge_index": (torch.tensor([[0], [5]]), "edge_index joins nodes 0 and 5 in graph"),
    "num_nodes": (torch.tensor([2.0]), "num_nodes is torch.float32 of shape .*; give"),
    "x": (torch.ones(5, 1), "x has 5 rows; give 2, one for every node"),
    "y": (torch.ones(3), "y has 3 rows; give 1, one for every graph"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_store_with_a_malformed_field_is_refused(name):
    value, message = BROKEN[name]
    edges = torch.tensor([[0], [1]])
    store = GraphStore(torch.tensor([2]), torch.tensor([1]), edges)
    assert len(GraphLoader(store)) == 1
    with pytest.raises(GraphError, match=message):
        GraphLoader(replace(store, **{name: value}))


def test_parts_of_a_random_split_are_read():
    graphs = [Data(x=torch.full((1, 1), float(n)), y=torch.ones(1)) for n in range(5)]
    parts = random_split(graphs, [3, 2], torch.Generator().manual_seed(0))
    found = [next(iter(GraphLoader(part, 5))).x.flatten().tolist() for part in parts]
    wanted = [[float(number) for number in part.indices] for part in parts]
    assert found == wanted


PATHS = [
    Data(
        x=torch.full((2, 1), float(n)),
        edge_index=GRAPH.edge_index[:, : 1 + n % 2],
        edge_attr=torch.rand(1 + n % 2, 2),
        y=torch.rand(1, 2),
    )
    for n in range(5)
]


class Mapped(Dataset):
    """A data set of PyTorch, which does not say where it ends."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Data:
        return PATHS[index % 5]


class Indexed:
    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Data:
        return PATHS[index % 5]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(PATHS)


SOURCES = {
    "list": lambda: PATHS,
    "tuple": lambda: tuple(PATHS),
    "iterator": lambda: iter(PATHS),
    "mapped": Mapped,
    "indexed": Indexed,
    "part": lambda: Subset(Mapped(), [0, 1, 2, 3, 4]),
    "joined": lambda: ConcatDataset([PATHS[:2], Subset(Mapped(), [2, 3, 4])]),
    "stream": Stream,
    "store": lambda: from_pyg(PATHS),
    "in memory": lambda: Rings(graphs=PATHS),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_graphs_of_any_kind_are_read_and_counted(kind):
    given = SOURCES[kind]()
    loader = GraphLoader(given, 2)
    for one, other in zip(loader, DataLoader(PATHS, 2), strict=True):
        assert_same_batch(one, other)
    assert len(loader.dataset) == 5
    assert kind in ("iterator", "stream") or loader.dataset is given


def test_the_data_set_of_a_name_can_be_counted():
    loader = GraphLoader("csl", 10, subgraphs=EgoNets(1))
    assert len(loader.dataset) == 150
    assert len(loader) == 15
    assert next(iter(loader)).subgraphs.num_subgraphs == 410


def test_a_transform_of_joined_data_sets_is_told_once(caplog):
    GraphLoader(ConcatDataset([Rings(add_noise), Rings(), Rings(add_noise)]), 3)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("kind", [DataLoader, GraphLoader])
def test_a_loader_is_not_taken_for_graphs(kind):
    message = f"graphs is a {kind.__name__}, .*give its graphs, loader.dataset"
    with pytest.raises(GraphError, match=message):
        GraphLoader(kind(PATHS, 2), 2)


def test_a_data_set_without_a_length_is_refused():
    with pytest.raises(GraphError, match=r"graphs is a Dataset; .*with __len__ and"):
        GraphLoader(Dataset(), 2)


def test_subgraphs_of_graphs_without_edge_index_are_refused():
    without, single = Data(torch.rand(3, 1)), Data(torch.rand(1, 1))
    with pytest.raises(GraphError, match="graph 1 has 3 nodes and no edge_index, so"):
        GraphLoader([single, without], subgraphs=EgoNets(1))
    empty = Data(torch.rand(3, 1), torch.zeros(2, 0, dtype=torch.long))
    for graphs in ([single], [empty]):
        (batch,) = GraphLoader(graphs, subgraphs=EgoNets(1))
        assert batch.subgraphs.num_copies == graphs[0].num_nodes
    assert len(GraphLoader([without])) == 1

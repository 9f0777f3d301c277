import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
import torch_geometric.datasets
from torch_geometric.data import Data

from gnnak.datasets import load_dataset
from gnnak.errors import FileFormatError, MissingPackageError
from gnnak.nn.features import Categorical, Continuous

pytestmark = pytest.mark.usefixtures("no_data")
EDGE = torch.tensor([[0, 1], [1, 0]])


def offline(*arguments, **options):
    raise OSError("no route to host")


@pytest.mark.parametrize(
    ("name", "source", "file"),
    [
        ("zinc", "ZINC", "zinc12k.npz"),
        ("mutag", "TUDataset", "tu-mutag.npz"),
        ("cifar10", "GNNBenchmarkDataset", "cifar10-superpixels.npz"),
    ],
)
def test_offline_error_names_the_missing_file(name, source, file, monkeypatch):
    monkeypatch.setattr(torch_geometric.datasets, source, offline)
    with pytest.raises(FileFormatError) as told:
        load_dataset(name)
    assert str(told.value) == (
        f"{file} was not found and could not be downloaded (no route to host); put it "
        "into the folder that --data-dir or GNNAK_DATA names."
    )


def test_exp_cannot_be_downloaded():
    with pytest.raises(FileFormatError, match=r"exp\.npz was not found and cannot be"):
        load_dataset("exp")


def test_zinc_is_downloaded_once_and_cached(monkeypatch, cache):
    def zinc(root, subset, split):
        assert subset
        assert root.startswith(str(cache))
        value = float(("train", "val", "test").index(split))
        attributes = torch.tensor([1, 1])
        x, y = torch.zeros(2, 1, dtype=torch.long), torch.tensor([value])
        return [Data(x=x, edge_index=EDGE, edge_attr=attributes, y=y)]

    monkeypatch.setattr(torch_geometric.datasets, "ZINC", zinc)
    first = load_dataset("zinc")
    monkeypatch.setattr(torch_geometric.datasets, "ZINC", offline)
    again = load_dataset("zinc")
    for found in (first, again):
        assert found.info.source == "downloaded"
        assert found.split.tolist() == [0, 1, 2]
        assert found.store.y.tolist() == [0.0, 1.0, 2.0]
        assert found.store.edge_attr.tolist() == [[1]] * 6
        assert found.info.node_features == Categorical((28,))


def test_tu_is_downloaded_with_random_folds_and_degrees(monkeypatch):
    def tu(root, name):
        assert name == "IMDB-BINARY"
        return [
            Data(edge_index=EDGE, num_nodes=3, y=torch.tensor([i % 2]))
            for i in range(20)
        ]

    monkeypatch.setattr(torch_geometric.datasets, "TUDataset", tu)
    found = load_dataset("imdb-b")
    assert found.info.source == "downloaded, folds drawn (seed 0)"
    assert found.folds.sum(dim=0).tolist() == [1] * 20
    assert found.store.x[:3].tolist() == [[1], [1], [0]]


def test_cifar10_is_downloaded_as_superpixels_and_joined(monkeypatch):
    def benchmark(root, name, split):
        generator = torch.Generator().manual_seed(0)
        x, pos = (torch.rand(20, c, generator=generator) for c in (3, 2))
        return [Data(x=x, pos=pos, edge_index=EDGE, y=torch.tensor([4]))]

    monkeypatch.setattr(torch_geometric.datasets, "GNNBenchmarkDataset", benchmark)
    found = load_dataset("cifar10")
    assert found.store.y.tolist() == [4, 4, 4]
    assert found.info.node_features == Continuous(5)
    assert found.info.edge_features == Continuous(1)
    assert found.store.num_edges.min() >= 20 * 8
    assert found.store.x.max() <= 1


def fake_ogb(monkeypatch, columns):
    graph = {
        "num_nodes": 2,
        "edge_index": EDGE.numpy(),
        "node_feat": np.zeros((2, 9), dtype=np.int64),
        "edge_feat": np.zeros((2, 3), dtype=np.int64),
    }
    labels = np.full((3, columns), np.nan)
    labels[0] = 1

    class Reader(SimpleNamespace):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return graph, self.labels[index]

        def get_idx_split(self):
            parts = ("train", "valid", "test")
            return {part: np.array([i]) for i, part in enumerate(parts)}

    module = ModuleType("ogb.graphproppred.dataset")
    module.GraphPropPredDataset = lambda name, root: Reader(name=name, labels=labels)
    for name in ("ogb", "ogb.graphproppred"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "ogb.graphproppred.dataset", module)


@pytest.mark.parametrize(("name", "columns"), [("molhiv", 1), ("molpcba", 128)])
def test_ogb_is_read_through_its_plain_reader(name, columns, monkeypatch):
    fake_ogb(monkeypatch, columns)
    for found in (load_dataset(name), load_dataset(name)):
        assert found.split.tolist() == [0, 1, 2]
        assert found.store.y.shape == (3, columns)
        assert found.store.y.dtype == torch.float
        assert found.store.y.isnan().sum() == 2 * columns
        assert len(found.info.node_features.sizes) == 9


def test_missing_ogb_names_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "ogb", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'gnnak\[ogb\]'"):
        load_dataset("molpcba")

"""The benchmark files, where `GNNAK_DATA` says they are."""

import os
from pathlib import Path

import pytest
import torch

from gnnak.errors import FileFormatError
from gnnak.graphs import read_graph6, read_npz, write_npz
from tests.graphs.graph_strategies import assert_same


def real(name: str) -> Path:
    path = Path(os.environ.get("GNNAK_DATA", "")) / name
    if "GNNAK_DATA" not in os.environ or not path.exists():
        pytest.skip(f"GNNAK_DATA has no {name}")
    return path


@pytest.mark.parametrize(
    ("name", "graphs", "nodes", "edges"),
    [
        ("zinc12k.npz", 12000, 23.15, 49.83),
        ("exp.npz", 1200, 44.4, 110.2),
        ("counting.npz", 5000, 18.8, 62.7),
        ("tu-mutag.npz", 188, 17.9, 39.6),
        ("tu-ptc.npz", 344, 25.6, 51.9),
    ],
)
def test_read_npz_real_file_has_the_published_sizes(name, graphs, nodes, edges):
    store = read_npz(real(name)).check().store
    assert len(store) == graphs
    assert store.num_nodes.double().mean() == pytest.approx(nodes, abs=0.06)
    assert store.num_edges.double().mean() == pytest.approx(edges, abs=0.06)
    store[torch.arange(0, graphs, 7)].check()


def test_read_npz_zinc_split_and_names():
    file = read_npz(real("zinc12k.npz"))
    parts = ("train", "validation", "test")
    assert [file.indices(part).numel() for part in parts] == [10000, 1000, 1000]
    train = file.store.subset(file.indices("train"))
    assert train.y.mean() == pytest.approx(0.0153, abs=1e-4)
    assert file.names["atom_names"][:3] == ("C", "O", "N")


def test_read_npz_tu_folds():
    file = read_npz(real("tu-mutag.npz"))
    assert file.folds.shape == (10, 188)
    train, test = file.fold(9)
    assert not set(train.tolist()) & set(test.tolist())


@pytest.mark.heavy
def test_write_npz_real_file_round_trip(tmp_path):
    file = read_npz(real("zinc12k.npz"))
    write_npz(tmp_path / "zinc.npz", file)
    assert_same(read_npz(tmp_path / "zinc.npz"), file)


def test_read_graph6_strongly_regular():
    store = read_graph6(real("sr25.g6")).check()
    assert store.num_nodes.tolist() == [25] * 15
    assert store.num_edges.tolist() == [300] * 15
    degree = torch.bincount(store.union().edge_index[1])
    assert degree.tolist() == [12] * 375


def test_read_npz_superpixels_have_no_edges():
    path = real("cifar10-superpixels.npz")
    with pytest.raises(FileFormatError, match="pass allow_no_edges=True"):
        read_npz(path)
    store = read_npz(path, allow_no_edges=True).store
    assert store.num_nodes.double().mean() == pytest.approx(117.63, abs=0.01)

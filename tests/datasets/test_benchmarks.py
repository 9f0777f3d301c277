import gzip
import io
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch_geometric.datasets as pyg_datasets
from torch_geometric.data import Data

from gnnak.datasets import DATASETS, benchmarks, load_dataset
from gnnak.datasets.archive import PINNED
from gnnak.datasets.benchmarks import (
    OGB_NAMES,
    SIZES,
    TU_NAMES,
    _neighbors,
    fetch_tu,
    folds_by_group,
    read_csv,
    stratified_folds,
    superpixel_edges,
)
from gnnak.errors import FileFormatError, OptionError
from gnnak.graphs import GraphStore, read_npz
from gnnak.nn.features import Categorical, Continuous
from tests.datasets.conftest import Evil, zipped


def random_superpixels(sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(256, (sum(sizes), 5), generator=generator)
    empty = torch.zeros(len(sizes), dtype=torch.long)
    return GraphStore(torch.tensor(sizes), empty, torch.empty(2, 0).long(), x=x)


def literal(x):
    """The recipe in numpy, one graph at a time."""
    position, nodes = x[:, 3:].numpy() / 255, range(len(x))
    distance = np.linalg.norm(position[:, None] - position[None], axis=2)
    nearest = np.sort(distance, axis=1)[:, 1:9]
    similarity = np.exp(-((distance / nearest.mean(axis=1, keepdims=True)) ** 2))
    similarity = (similarity + similarity.T) / 2
    np.fill_diagonal(similarity, 0)
    edges = set()
    for node in nodes:
        rank = similarity[node].argsort(kind="stable").argsort().astype(np.int16)
        for other in np.argpartition(rank, len(x) - 10)[-9:-1].tolist():
            edges |= {(node, other), (other, node)}
    return edges


def test_superpixel_edges_equal_the_recipe_graph_by_graph():
    sizes = [30, 12, 50, 10, 30]
    store = random_superpixels(sizes, seed=3)
    built = superpixel_edges(store).check()
    for index, x in enumerate(store.x.split(sizes)):
        graph, wanted = built[index], literal(x)
        found = list(map(tuple, graph.edge_index.t().tolist()))
        assert sorted(found) == sorted(wanted)
        assert graph.edge_attr is None


def test_superpixel_edges_ignore_colours():
    store = random_superpixels([40])
    grey = replace(store, x=store.x * torch.tensor([0, 0, 0, 1, 1]))
    found, wanted = superpixel_edges(grey), superpixel_edges(store)
    assert torch.equal(found.edge_index, wanted.edge_index)


def test_superpixel_edges_leave_out_one_of_the_nine_nearest():
    """In this order, numpy moves the nearest, 15, to the last position."""
    ranks = torch.tensor([3, 11, 6, 0, 9, 14, 1, 7, 13, 4, 15, 10, 2, 8, 12, 5])
    chosen = _neighbors(ranks.double().expand(1, 16, 16))[0, 3]
    assert sorted(ranks[chosen].tolist()) == [7, 8, 9, 10, 11, 12, 13, 14]


def test_superpixel_edges_of_small_graphs_are_all_pairs():
    built = superpixel_edges(random_superpixels([0, 1, 2, 5, 9])).check()
    assert built.num_edges.tolist() == [0, 0, 2, 20, 72]


@pytest.mark.heavy
def test_superpixel_edges_of_real_images_are_as_many_as_published(data_dir):
    file = read_npz(data_dir / "cifar10-superpixels.npz", allow_no_edges=True)
    built = superpixel_edges(file.store.subset(slice(0, 60_000, 20)))
    mean = float(built.num_edges.double().mean())
    assert mean == pytest.approx(1129.8, abs=1)


def test_folds_by_group_test_every_graph_once_and_keep_groups_together():
    group = torch.arange(40) // 2
    folds = folds_by_group(group, 10, seed=1)
    assert folds.sum(dim=0).tolist() == [1] * 40
    assert folds.sum(dim=1).tolist() == [4] * 10
    assert torch.equal(folds[:, 0::2], folds[:, 1::2])
    assert not torch.equal(folds, folds_by_group(group, 10, seed=2))


def test_stratified_folds_have_their_share_of_every_class():
    y = torch.arange(10).repeat_interleave(15)
    folds = stratified_folds(y, 5)
    assert folds.sum(dim=0).tolist() == [1] * 150
    for fold in folds:
        assert y[fold == 1].bincount().tolist() == [3] * 10


def test_folds_are_at_least_two():
    with pytest.raises(OptionError, match="num_folds is 1"):
        folds_by_group(torch.zeros(3, dtype=torch.long), 1)


def graph(label):
    generator = torch.Generator().manual_seed(label)
    x, pos = (torch.rand(20, c, generator=generator) for c in (3, 2))
    return {
        "x": x,
        "pos": pos,
        "edge_index": torch.tensor([[0, 1, 2, 19], [1, 0, 4, label]]),
        "edge_attr": torch.tensor([0.5, 0.5, 0.25, 0.75]),
        "y": torch.tensor([label]),
    }


def cifar10_archive(content):
    file = io.BytesIO()
    torch.save(content, file)
    return zipped({"CIFAR10_v2.pt": file.getvalue()})


def test_cifar10_is_downloaded_with_its_edges_in_both_directions(internet):
    internet.contents["CIFAR10_v2.zip"] = cifar10_archive(
        [[graph(4)], [graph(5)], [graph(6)]]
    )
    found = load_dataset("cifar10")
    assert found.store.y.tolist() == [4, 5, 6]
    assert found.split.tolist() == [0, 1, 2]
    assert found.info.node_features == Continuous(5)
    assert found.info.edge_features is None
    assert found.store.num_edges.tolist() == [6, 6, 6]
    assert found.store.edge_index[:, 6:12].tolist() == [
        [0, 1, 2, 4, 5, 19],
        [1, 0, 4, 2, 19, 5],
    ]
    assert found.store.edge_attr is None
    wanted = graph(4)
    pixels = torch.cat([wanted["x"], wanted["pos"]], dim=1)
    assert (found.store.x[:20] - pixels).abs().max() <= 0.5 / 255 + 1e-6


def test_a_planted_object_is_not_executed(internet, tmp_path):
    file = tmp_path / "evil"
    for content in (
        cifar10_archive([Evil(file)]),
        zipped({"CIFAR10_v2.pt": pickle.dumps(Evil(file))}),
    ):
        internet.contents["CIFAR10_v2.zip"] = content
        with pytest.raises(FileFormatError, match="it is not read, because it could r"):
            load_dataset("cifar10")
    assert not file.exists()


def ogb_archive(title, columns, **changes):
    """Three molecules: a pair of atoms, one atom, and a pair of atoms."""
    label = ",".join(["1.0"] * columns)
    other = "0" if columns == 1 else "," * (columns - 1)
    parts = {
        "raw/edge": "0,1\n0,1\n",
        "raw/num-node-list": "2\n1\n2\n",
        "raw/num-edge-list": "1\n0\n1\n",
        "raw/node-feat": "".join(f"{i},0,0,0,0,0,0,0,0\n" for i in range(5)),
        "raw/edge-feat": "1,0,0\n2,0,1\n",
        "raw/graph-label": f"{label}\n{other}\n{label}\n",
        "split/scaffold/train": "2\n",
        "split/scaffold/valid": "0\n",
        "split/scaffold/test": "1\n",
    } | changes
    return zipped(
        {f"{title}/{k}.csv.gz": gzip.compress(v.encode()) for k, v in parts.items()}
    )


@pytest.mark.parametrize(
    ("name", "title", "columns"), [("molhiv", "hiv", 1), ("molpcba", "pcba", 128)]
)
def test_ogb_archives_are_read_without_the_package_ogb(name, title, columns, internet):
    internet.contents[f"{title}.zip"] = ogb_archive(title, columns)
    for found in (load_dataset(name), load_dataset(name)):
        assert found.split.tolist() == [1, 2, 0]
        assert found.store.num_edges.tolist() == [2, 0, 2]
        assert found.store.edge_index.tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]
        assert found.store.edge_attr[:, 0].tolist() == [1, 1, 2, 2]
        assert found.store.x[:, 0].tolist() == [0, 1, 2, 3, 4]
        assert found.store.y.dtype == torch.float
        assert found.store.y.shape == (3, columns)
        unknown = columns if columns > 1 else 0
        assert found.store.y.isnan().sum(dim=1).tolist() == [0, unknown, 0]
    assert len(internet.opened) == 1


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (b"1,2\n3,4", [[1, 2], [3, 4]]),
        (b",,\r\n,5,\r\n", [[None] * 3, [None, 5, None]]),
        (b"7\n", [[7]]),
    ],
)
def test_read_csv_by_hand(text, rows):
    found = read_csv(text, np.float32)
    assert [[None if v != v else v for v in row] for row in found.tolist()] == rows


MUTAG = {
    "A": "1, 2\n2, 1\n2, 1\n3, 3\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n2\n",
    "graph_labels": "-1\n1\n",
    "node_labels": "3\n4\n5\n3\n3\n6\n",
    "edge_labels": "0\n0\n0\n0\n0\n0\n",
}


def tu_archive(title, parts):
    return zipped({f"{title}/{title}_{part}.txt": text for part, text in parts.items()})


def test_tu_by_hand(internet, tmp_path):
    internet.contents["MUTAG.zip"] = tu_archive("MUTAG", MUTAG)
    store = fetch_tu("mutag", tmp_path).store
    assert store.num_nodes.tolist() == [3, 3]
    assert store.num_edges.tolist() == [2, 2]
    assert store.edge_index.tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]
    assert store.x.tolist() == [[0], [1], [2], [0], [0], [3]]
    assert store.y.tolist() == [0, 1]
    assert store.edge_attr is None


def test_tu_is_downloaded_with_random_folds_and_degrees(internet):
    parts = {
        "A": "".join(f"{i}, {i + 1}\n{i + 1}, {i}\n" for i in range(1, 61, 3)),
        "graph_indicator": "".join(f"{i}\n" * 3 for i in range(1, 21)),
        "graph_labels": "1\n2\n" * 10,
    }
    internet.contents["IMDB-BINARY.zip"] = tu_archive("IMDB-BINARY", parts)
    found = load_dataset("imdb-b")
    assert found.info.source == "downloaded, folds drawn (seed 0)"
    assert found.folds.sum(dim=0).tolist() == [1] * 20
    assert found.store.x[:3].tolist() == [[0, 1], [0, 1], [1, 0]]
    assert found.store.y.tolist() == [0, 1] * 10


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"A": "1, 9\n"}, "an edge joins a node beyond the 6 nodes"),
        ({"A": "1, x\n"}, "is not a data set of the TU collection"),
        ({"graph_indicator": "2\n1\n1\n1\n1\n1\n"}, "the nodes are not sorted"),
        ({"graph_indicator": "1\n1\n1\n1\n1\n9\n"}, "the nodes are not sorted"),
        ({"A": "1, 4\n4, 1\n"}, "edge_index joins nodes"),
    ],
)
def test_damaged_tu_archives_raise_a_clear_error(change, sentence, internet):
    internet.contents["MUTAG.zip"] = tu_archive("MUTAG", MUTAG | change)
    with pytest.raises(FileFormatError, match=sentence) as caught:
        load_dataset("mutag")
    assert "\n" not in str(caught.value)


def molecule(target):
    """A path of three atoms, whose types are 5, 0 and 7, with bonds 1 and 2."""
    bonds = torch.tensor([[0, 1, 0], [1, 0, 2], [0, 2, 0]], dtype=torch.int32)
    return {
        "num_atom": 3,
        "atom_type": torch.tensor([5, 0, 7], dtype=torch.int8),
        "bond_type": bonds,
        "logP_SA_cycle_normalized": torch.tensor([target]),
    }


def zinc_archive(**changes):
    parts = {
        split: pickle.dumps([molecule(code + i / 4) for i in range(3)])
        for code, split in enumerate(("train", "val", "test"))
    }
    return zipped({f"molecules/{k}.pickle": v for k, v in (parts | changes).items()})


@pytest.fixture
def zinc(internet):
    internet.contents["molecules.zip?dl=1"] = zinc_archive()
    internet.contents["train.index"] = b"2,0\n"
    internet.contents["val.index"] = b"1\n"
    internet.contents["test.index"] = b"0,"
    return internet


@pytest.mark.usefixtures("zinc")
def test_zinc_is_downloaded_with_the_molecules_of_the_index():
    found = load_dataset("zinc")
    assert found.info.source == "downloaded"
    assert found.split.tolist() == [0, 0, 1, 2]
    assert found.store.y.tolist() == [0.5, 0.0, 1.25, 2.0]
    assert found.store.num_nodes.tolist() == [3] * 4
    assert found.store.x[:3].tolist() == [[5], [0], [7]]
    assert found.info.node_features == Categorical((28,))
    batch = found.store[0]
    edges = zip(*batch.edge_index.tolist(), batch.edge_attr[:, 0].tolist(), strict=True)
    assert sorted(edges) == [(0, 1, 1), (1, 0, 1), (1, 2, 2), (2, 1, 2)]


def test_zinc_is_downloaded_once_and_cached(zinc):
    first = load_dataset("zinc")
    zinc.contents.clear()
    again = load_dataset("zinc")
    assert torch.equal(first.store.edge_index, again.store.edge_index)
    assert len(zinc.opened) == 4


def test_a_planted_pickle_is_not_executed(zinc, tmp_path):
    evil = pickle.dumps(Evil(tmp_path / "evil"))
    zinc.contents["molecules.zip?dl=1"] = zinc_archive(train=evil)
    with pytest.raises(FileFormatError) as caught:
        load_dataset("zinc")
    assert str(caught.value).endswith(
        "eval; it is not read, because it could run code; alternatively put "
        "zinc12k.npz into the folder that --data-dir or GNNAK_DATA names."
    )
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("name", "address", "content", "message"),
    [
        (
            *("cifar10", "CIFAR10_v2.zip"),
            cifar10_archive([[{"x": torch.ones(2)}]]),
            "does not contain superpixels",
        ),
        (
            *("molhiv", "hiv.zip"),
            ogb_archive("hiv", 1, **{"raw/edge": "0,x\n"}),
            "is not a molecule data set of OGB",
        ),
        (
            *("zinc", "molecules.zip?dl=1"),
            zinc_archive(val=pickle.dumps([{"a": 1}] * 9)),
            "does not contain the molecules of ZINC",
        ),
    ],
)
def test_archives_of_something_else_are_refused(name, address, content, message, zinc):
    zinc.contents[address] = content
    with pytest.raises(FileFormatError, match=message):
        load_dataset(name)


def test_a_wrong_archive_is_downloaded_again(zinc):
    right = zinc.contents["molecules.zip?dl=1"]
    wrong = (b"<html>", right[: len(right) // 2], zinc_archive(train=b"damaged"))
    for content in wrong:
        zinc.contents["molecules.zip?dl=1"] = content
        with pytest.raises(FileFormatError, match=r"zinc12k\.npz"):
            load_dataset("zinc")
    zinc.contents["molecules.zip?dl=1"] = right
    assert len(load_dataset("zinc").store) == 4


PINS = {**PINNED}
SIZED = {**SIZES}
FILES = {"zinc": "zinc12k", "cifar10": "cifar10-superpixels", "molhiv": "molhiv"}


def test_every_archive_has_a_pinned_checksum_or_the_size_of_the_real_data(data_dir):
    """The sizes are those of the data at hand."""
    pinned = {f"{title}.zip" for title in TU_NAMES.values()} | {"ogbg-pcba.zip"}
    assert set(PINS) == pinned
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in PINS.values())
    downloads = {  # PyG downloads the data sets of one graph.
        entry.name
        for entry in DATASETS.values()
        if entry.origin == "download" and not entry.info.one_graph
    }
    assert downloads == {*TU_NAMES, *OGB_NAMES, "zinc", "cifar10"}
    assert set(SIZED) == downloads - {*TU_NAMES, "molpcba"}
    for name, size in SIZED.items():
        with np.load(data_dir / f"{FILES[name]}.npz") as file:
            nodes = int(file["num_nodes"].sum(dtype=np.int64))
            assert size == (tuple(np.bincount(file["split"]).tolist()), nodes)


@pytest.mark.parametrize(
    ("name", "address", "content", "found"),
    [
        ("zinc", "molecules.zip?dl=1", zinc_archive(), "2 / 1 / 1 graphs .* 12 nodes"),
        (
            *("cifar10", "CIFAR10_v2.zip"),
            cifar10_archive([[graph(4)], [graph(5)], [graph(6)]]),
            "1 / 1 / 1 graphs .* 60 nodes",
        ),
        ("molhiv", "hiv.zip", ogb_archive("hiv", 1), "1 / 1 / 1 graphs .* 5 nodes"),
    ],
)
def test_an_archive_of_another_size_is_refused_and_downloaded_again(
    name, address, content, found, zinc, monkeypatch
):
    monkeypatch.setattr(benchmarks, "SIZES", SIZED)
    zinc.contents[address] = content
    for _ in range(2):
        with pytest.raises(FileFormatError, match=f"archive of {name} has {found}"):
            load_dataset(name)
    assert sum(opened.endswith(address) for opened in zinc.opened) == 2


def test_fetch_nodes_reads_masks_or_makes_a_split(tmp_path, monkeypatch):
    ends = torch.tensor([[0, 1], [1, 0]])
    data = Data(x=torch.rand(10, 2), edge_index=ends, y=torch.arange(10) % 2)
    monkeypatch.setattr(pyg_datasets, "Amazon", lambda root, name: [data])
    found = benchmarks.fetch_nodes("computers", tmp_path)
    assert found.split is not None
    assert found.split.bincount().tolist() == [6, 2, 2]
    assert found.split[data.y == 1].bincount().tolist() == [3, 1, 1]
    masked = data.clone()
    columns = torch.arange(10)[:, None] + torch.arange(3)
    for part, name in enumerate(("train_mask", "val_mask", "test_mask")):
        masked[name] = columns % 3 == part
    monkeypatch.setattr(
        pyg_datasets, "HeterophilousGraphDataset", lambda root, name: [masked]
    )
    found = benchmarks.fetch_nodes("tolokers", tmp_path).check()
    assert found.split is not None
    assert torch.equal(found.split, columns.t() % 3)
    assert found.store.node_targets

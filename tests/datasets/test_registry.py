import re

import numpy as np
import pytest
import torch

from gnnak.datasets import DATASETS, dataset_names, load_dataset, loaders
from gnnak.datasets.cache import cached_path
from gnnak.datasets.counting import SUBSTRUCTURES, count_substructures, counting_graphs
from gnnak.datasets.loaders import pattern_graphs
from gnnak.datasets.mixture import property_graphs
from gnnak.errors import FileFormatError, GraphError, OptionError
from gnnak.graphs import GraphFile, GraphStore, write_npz
from gnnak.graphs.families import srg25
from gnnak.graphs.store import with_reverse_edges
from gnnak.nn.features import Categorical, Continuous

SMALL = ("exp-like", "sr25", "csl", "cfi")


def molecules(columns):
    """Two molecules of two atoms, all labels of the second are unknown."""
    y = torch.ones(2, columns)
    y[1] = torch.nan
    store = GraphStore(
        torch.tensor([2, 2]),
        torch.tensor([2, 2]),
        torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]]),
        x=torch.zeros(4, 9, dtype=torch.long),
        edge_attr=torch.zeros(4, 3, dtype=torch.long),
        y=y,
    )
    return GraphFile(store, split=torch.tensor([0, 2]))


def test_names_are_those_of_the_entries():
    assert len(dataset_names()) == 24
    assert dataset_names()[-1] == "coauthor-physics"
    for name, entry in DATASETS.items():
        assert name == entry.name == entry.info.name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "zinx"}, "there is no data set 'zinx'; did you mean 'zinc'"),
        ({"name": "qqqq"}, "there is no data set 'qqqq'; use one of: exp"),
        ({"name": "counting", "target": "stars"}, "did you mean 'star'"),
        ({"name": "csl", "target": "star"}, "csl has one target only, got 'star'"),
        ({"name": "csl", "seed": -1}, "seed is -1"),
        ({"name": "exp", "data_dir": "nowhere"}, "data_dir is 'nowhere'"),
    ],
)
def test_load_dataset_raises_a_clear_error(arguments, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        load_dataset(**arguments)


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize("name", SMALL)
def test_built_data_sets_load_without_any_file(name, cache):
    found = load_dataset(name).check()
    assert found.info.num_outputs == int(found.store.y.max()) + 1
    assert not cache.exists()
    half = torch.arange(0, len(found.store), 2)
    assert len(found.subset(half).check().store) == len(half)


@pytest.mark.usefixtures("no_data")
def test_sr25_is_built_of_the_graphs_that_are_isomorphic_to_the_file():
    """That `srg25` gives the graphs of the file, tests of the families say."""
    built = load_dataset("sr25")
    assert built.info.source == "built"
    assert built.info.batch_statistics
    found = built.store.edge_index.split(built.store.num_edges.tolist(), dim=1)
    assert built.store.num_nodes.tolist() == [25] * 15
    for edge_index, (known, _) in zip(found, srg25(), strict=True):
        assert torch.equal(edge_index, known)


@pytest.mark.usefixtures("no_data")
def test_counting_is_generated_once_for_all_targets(monkeypatch):
    def few(seed, progress):
        return counting_graphs(seed, 500)

    monkeypatch.setattr(loaders, "counting_graphs", few)
    made = load_dataset("counting")
    assert made.info.source == "generated (seed 0)"
    assert cached_path("counting", "seed", 0).is_file()
    assert made.split.bincount().tolist() == [150, 100, 250]
    for target in SUBSTRUCTURES:
        found = load_dataset("counting", target=target)
        assert torch.equal(found.store.edge_index, made.store.edge_index)
        assert found.store.y.std(correction=0) == pytest.approx(1.0, abs=1e-5)
        ratio = count_substructures(found.store, target) / found.store.y
        assert ratio[found.store.y > 0].std() < 1e-4


@pytest.mark.heavy
@pytest.mark.usefixtures("no_data")
def test_properties_are_read_from_the_cache_and_over_the_train_maximum(monkeypatch):
    calls = []

    def few(seed, progress):
        calls.append(seed)
        return property_graphs(seed, share=0.02)

    monkeypatch.setattr(loaders, "property_graphs", few)
    for target in DATASETS["properties"].targets:
        found = load_dataset("properties", target=target, seed=1)
        assert found.info.node_features == Continuous(2)
        assert found.store.y[found.split == 0].max() == 1
    load_dataset("properties", seed=2)
    assert calls == [1, 2]


@pytest.mark.usefixtures("no_data")
def test_pattern_is_a_node_task(monkeypatch):
    def few(seed, progress):
        return pattern_graphs(seed, (4, 2, 2))

    monkeypatch.setattr(loaders, "pattern_graphs", few)
    first, again = load_dataset("pattern"), load_dataset("pattern")
    assert first.info.node_task
    assert first.info.node_features == Categorical((2, 2, 2))
    for field in ("edge_index", "x", "y"):
        left, right = (getattr(found.store, field) for found in (first, again))
        assert torch.equal(left, right)


def test_molpcba_is_read_from_a_file_with_unknown_labels(tmp_path):
    write_npz(tmp_path / "molpcba.npz", molecules(128))
    found = load_dataset("molpcba", data_dir=tmp_path)
    assert found.info.source == "molpcba.npz"
    assert found.info.metric == "average-precision"
    assert found.store.y.isnan().sum(dim=1).tolist() == [0, 128]
    assert found.info.node_features.sizes[0] == 119


def test_a_foreign_or_truncated_file_raises_a_clear_error(tmp_path):
    write_npz(tmp_path / "molpcba.npz", molecules(3))
    with pytest.raises(GraphError, match="y of molpcba has 3 columns; give 128"):
        load_dataset("molpcba", data_dir=tmp_path)
    content = (tmp_path / "molpcba.npz").read_bytes()
    (tmp_path / "molpcba.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(FileFormatError, match=r"molpcba\.npz is not an npz file"):
        load_dataset("molpcba", data_dir=tmp_path)
    bare = molecules(1)
    store = GraphStore(
        bare.store.num_nodes, bare.store.num_edges, bare.store.edge_index, bare.store.x
    )
    write_npz(
        tmp_path / "exp.npz", GraphFile(with_reverse_edges(store.subset(slice(0))))
    )
    with pytest.raises(FileFormatError, match=r"exp\.npz has no targets y"):
        load_dataset("exp", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("zinc", {"x": None}, r"zinc12k\.npz: the key x is missing; add it; see docs/"),
        ("mutag", {"x": None}, r"tu-mutag\.npz: the key x is missing; add it; see doc"),
        ("mutag", {"x": 10**9}, r"x has the category 1000000000, not one of 0 to 9999"),
        ("mutag", {"x": -1}, r"x has the category -1, not one of 0 to 99999; give a f"),
        ("mutag", {"x": np.nan}, "x has entries that are not finite numbers; give a"),
        ("mutag", {"edge_attr": np.inf}, "edge_attr has entries that are not finite"),
        ("cifar10", {"x": None}, "the key x is missing"),
        ("cifar10", {"x": np.nan}, "x must have five columns of numbers from 0 to 255"),
        ("cifar10", {"x": 256}, "x must have five columns of numbers from 0 to 255"),
    ],
)
def test_features_that_do_not_fit_raise_a_clear_error(name, change, sentence, tmp_path):
    file = {"zinc": "zinc12k.npz", "cifar10": "cifar10-superpixels.npz"}
    columns = 5 if name == "cifar10" else 1
    arrays = {
        "num_nodes": np.array([2, 2]),
        "num_edges": np.array([1, 1]),
        "edge_index": np.array([[0, 0], [1, 1]]),
        "x": np.zeros((4, columns), int),
        "edge_attr": np.ones((2, 1), int),
        "y": np.array([0, 1]),
        "split": np.array([0, 1]),
    }
    for key, value in change.items():
        wrong = np.full_like(arrays[key], value or 0, type(value))
        arrays = {k: wrong if k == key else v for k, v in arrays.items()}
        if value is None:
            del arrays[key]
    np.savez(tmp_path / file.get(name, f"tu-{name}.npz"), **arrays)
    with pytest.raises(FileFormatError, match=sentence) as caught:
        load_dataset(name, data_dir=tmp_path)
    assert "\n" not in str(caught.value)


def test_reddit_needs_no_x(tmp_path):
    np.savez(
        tmp_path / "tu-reddit-b.npz",
        num_nodes=np.full(20, 2),
        num_edges=np.ones(20, int),
        edge_index=np.array([[0] * 20, [1] * 20]),
        y=np.arange(20) % 2,
    )
    found = load_dataset("reddit-b", data_dir=tmp_path)
    assert found.store.x.tolist() == [[0]] * 40


def test_tags_that_occur_are_one_hot(tmp_path):
    arrays = {
        "num_nodes": np.full(20, 4),
        "num_edges": np.full(20, 3),
        "edge_index": np.array([[0] * 60, [1, 2, 3] * 20]),
        "y": np.arange(20) % 2,
    }
    np.savez(tmp_path / "tu-ptc.npz", x=np.array([[5], [1], [3], [1]] * 20), **arrays)
    np.savez(tmp_path / "tu-imdb-b.npz", **arrays)
    ptc, imdb = (load_dataset(name, data_dir=tmp_path) for name in ("ptc", "imdb-b"))
    assert ptc.store.x[:4].argmax(dim=1).tolist() == [2, 0, 1, 0]
    assert ptc.info.node_features == Continuous(3)
    assert imdb.store.x[:4].tolist() == [[0, 1], [1, 0], [1, 0], [1, 0]]
    assert imdb.info.node_features == Continuous(2)


def test_real_files_load_with_the_features_and_targets_of_their_task(data_dir):
    zinc = load_dataset("zinc", data_dir=data_dir)
    assert zinc.info.node_features == Categorical((28,))
    assert zinc.info.edge_features == Categorical((4,))
    assert zinc.store.y.dtype == torch.float
    exp = load_dataset("exp")
    assert exp.info.node_features == Categorical((2,))
    assert exp.info.edge_features is None
    assert torch.equal(exp.folds[:, 0::2], exp.folds[:, 1::2])
    assert exp.num_folds == 10
    hiv = load_dataset("molhiv")
    assert hiv.store.y.shape == (41127, 1)
    assert load_dataset("ptc").info.node_features == Continuous(19)
    assert load_dataset("imdb-b").info.node_features == Continuous(65)
    assert load_dataset("reddit-b").info.node_features == Categorical((1,))

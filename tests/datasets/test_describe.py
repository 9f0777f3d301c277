import pytest

from gnnak.datasets import DATASETS, describe_dataset, find_entry, load_dataset
from gnnak.datasets.describe import agrees, whereabouts

AT_HAND = ("exp", "sr25", "counting", "zinc", "molhiv")
TU = ("mutag", "proteins", "nci1", "imdb-b", "reddit-b")


def described(name):
    return describe_dataset(find_entry(name), load_dataset(name))


@pytest.mark.usefixtures("data_dir")
@pytest.mark.parametrize("name", [*AT_HAND, *TU])
def test_describe_equals_the_digits_of_the_paper(name):
    row = described(name)
    assert row.graphs == row.paper_graphs
    if name == "reddit-b":
        assert row.nodes == pytest.approx(float(row.paper_nodes), abs=0.015)
    else:
        assert agrees(row.nodes, row.paper_nodes)
    assert agrees(row.edges, row.paper_edges)


@pytest.mark.usefixtures("data_dir")
def test_describe_ptc_is_another_ptc():
    row = described("ptc")
    assert row.graphs == row.paper_graphs == "344"
    assert row.nodes == pytest.approx(25.56, abs=0.01)
    assert "another PTC" in row.note


@pytest.mark.slow
@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize("name", ["counting", "properties", "pattern"])
def test_describe_generated_sets_are_within_one_percent_of_the_paper(name):
    row = described(name)
    assert row.graphs == row.paper_graphs
    assert row.nodes == pytest.approx(float(row.paper_nodes), rel=0.01)
    assert row.edges == pytest.approx(float(row.paper_edges), rel=0.01)


@pytest.mark.slow
@pytest.mark.usefixtures("data_dir")
def test_describe_cifar10_has_as_many_edges_as_the_paper():
    row = described("cifar10")
    assert row.graphs == row.paper_graphs
    assert agrees(row.nodes, row.paper_nodes)
    assert row.edges == pytest.approx(float(row.paper_edges), abs=1)


def test_whereabouts_finds_files_else_says_how_it_is_made(tmp_path, no_data):
    origins = {entry.origin for entry in DATASETS.values()}
    assert origins == {"built", "generated", "download", "file only"}
    assert whereabouts(find_entry("zinc")) == "download"
    (tmp_path / "zinc12k.npz").touch()
    assert whereabouts(find_entry("zinc"), tmp_path) == "at hand"
    assert whereabouts(find_entry("csl"), tmp_path) == "built"


def test_describe_tells_features_and_folds():
    row = described("csl")
    assert (row.graphs, row.nodes, row.edges, row.folds) == ("150", 41.0, 164.0, 5)
    assert (row.node_features, row.edge_features) == ("categorical 1", "")
    assert row.paper_nodes is None
    assert row.as_dict()["source"] == "generated (seed 0)"

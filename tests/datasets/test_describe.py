import pytest
import torch

from gnnak.datasets import DATASETS, describe_dataset, find_entry, load_dataset
from gnnak.datasets import describe as describe_module
from gnnak.datasets.describe import (
    SubgraphSizes,
    agrees,
    sampled_sizes,
    subgraph_sizes,
    whereabouts,
)
from gnnak.datasets.pairs import regular_triangles
from gnnak.errors import SizeError
from gnnak.graphs import from_networkx, parse_graph6
from gnnak.models import ModelOptions, build_model
from gnnak.subgraphs import EgoNets, RandomWalks

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
    assert origins == {"built", "generated", "download", "package", "file only"}
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


def test_subgraph_sizes_of_a_path_and_a_triangle():
    store = parse_graph6("BW\nBw\n?")  # centre 2; three nodes; none
    (sizes,) = subgraph_sizes(store, EgoNets(num_hops=1))
    assert sizes.nodes.tolist() == [3, 3, 0]
    assert sizes.copies.tolist() == [7, 9, 0]
    assert sizes.edge_copies.tolist() == [8, 18, 0]


def test_subgraph_sizes_come_chunk_by_chunk():
    store = load_dataset("csl").store
    parts = list(subgraph_sizes(store, RandomWalks(length=0, repeats=1)))
    assert [len(part.nodes) for part in parts] == [64, 64, 22]
    assert torch.cat([part.copies for part in parts]).tolist() == [41] * 150


def test_subgraph_sizes_of_too_many_graphs_come_from_fewer_graphs_at_a_time():
    store = parse_graph6("BW\nBw\n?\nBw")
    (sizes,) = subgraph_sizes(store, EgoNets(num_hops=1, copy_limit=27))
    assert sizes.nodes.tolist() == [3, 3, 0, 3]
    assert sizes.copies.tolist() == [7, 9, 0, 9]
    assert sizes.edge_copies.tolist() == [8, 18, 0, 18]
    with pytest.raises(SizeError, match="more than copy_limit=26 allows"):
        list(subgraph_sizes(store, EgoNets(num_hops=1, copy_limit=26)))


def test_training_bytes_follow_the_formula():
    sizes = SubgraphSizes(*(torch.tensor([n]) for n in (5, 10, 20)))
    assert sizes.training_bytes(2, 3, 4, 1) == 4 * 3 * 5 * 2 * (15 * 10 + 20)


@pytest.mark.parametrize("hops", [1, 2])
def test_training_bytes_are_about_what_autograd_keeps(hops):
    data = load_dataset("csl")
    store = data.store.subset(slice(4))
    options = ModelOptions(num_layers=2, channels=32, subgraphs=EgoNets(hops))
    net = build_model("gin-ak+", data.info.node_features, None, 10, options)
    weights = {weight.untyped_storage().data_ptr() for weight in net.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor):
        place = tensor.untyped_storage().data_ptr()
        if place not in weights:
            kept[place] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        net(store.union())
    measured = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    (sizes,) = subgraph_sizes(store, EgoNets(hops))
    assert sizes.training_bytes(4, 2, 32) == pytest.approx(measured, rel=0.15)


CPU = torch.device("cpu")
GIB = 2**30


@pytest.fixture
def free(monkeypatch):
    def set_free(count):
        monkeypatch.setattr(describe_module, "free_bytes", lambda _: count)

    return set_free


def test_memory_advice_names_the_batch_size_that_fits(free):
    free(2 * GIB)
    assert describe_module.memory_advice(8.0 * GIB, 32, CPU) == (
        "a training step on 32 graphs needs about 8.0 GiB, but 2.0 GiB are free; use a "
        "batch size of 8, or fewer layers, channels or hops, or a model with the "
        "suffix -s, which trains on a sample of the subgraphs."
    )


def test_memory_advice_for_a_single_graph_names_no_batch_size(free):
    free(GIB)
    told = describe_module.memory_advice(8.0 * GIB, 1, CPU)
    assert "are free; use fewer layers" in told


@pytest.mark.parametrize("count", [None, 8 * GIB])
def test_memory_advice_is_none_if_memory_suffices_or_is_unknown(free, count):
    free(count)
    assert describe_module.memory_advice(8.0 * GIB, 1, CPU) is None


def test_sampled_sizes_measures_at_most_64_graphs():
    store = regular_triangles(50)
    sizes = sampled_sizes(store, EgoNets(1))
    assert len(sizes.nodes) == 64
    # Every node of a 4-regular graph is in five egonets of one hop.
    assert torch.equal(sizes.copies, 5 * sizes.nodes)


def test_sampled_sizes_of_no_graphs_or_too_large_ones_is_none():
    assert sampled_sizes(from_networkx([]), EgoNets(1)) is None
    assert sampled_sizes(regular_triangles(2), EgoNets(1, copy_limit=3)) is None

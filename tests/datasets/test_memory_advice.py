import pytest
import torch

from gnnak.datasets import describe as describe_module
from gnnak.datasets.describe import sampled_sizes
from gnnak.datasets.pairs import regular_triangles
from gnnak.graphs import from_networkx
from gnnak.subgraphs import EgoNets

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

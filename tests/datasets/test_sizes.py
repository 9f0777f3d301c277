import pytest
import torch

from gnnak.datasets import load_dataset
from gnnak.datasets.describe import SubgraphSizes, subgraph_sizes
from gnnak.errors import SizeError
from gnnak.graphs import parse_graph6
from gnnak.models import ModelOptions, build_model
from gnnak.subgraphs import EgoNets, RandomWalks


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

import gc
import weakref

import torch
from hypothesis import given, settings
from torch_geometric import nn as pyg

from gnnak import EgoNets, RandomWalks, uplift
from gnnak.sampling import shared as shared_module
from gnnak.sampling.shared import (
    CachedGraph,
    GraphCache,
    Replay,
    Sample,
    SharedSubgraphs,
    backward_task,
    draw_ticket,
)
from tests.strategies import graphs

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def test_shared_subgraphs_take_tensors_of_inference_mode():
    net = uplift(pyg.GCN(4, 4, 2), num_hops=1).eval()
    with torch.inference_mode():
        x, edge_index = torch.rand(3, 4), PATH.clone()
        assert net(x, edge_index).shape == (3, 4)


def test_shared_subgraphs_keep_egonets_from_training_to_evaluation():
    shared = SharedSubgraphs(EgoNets(1))
    first = shared.get(PATH, 3, training=True)
    assert shared.get(PATH, 3, training=False) is first


def test_shared_subgraphs_do_not_evaluate_on_walks_drawn_in_training():
    clique = torch.combinations(torch.arange(9)).t()
    clique = torch.cat([clique, clique.flip(0)], dim=1)
    shared = SharedSubgraphs(RandomWalks(length=2, repeats=1))
    fixed = shared.get(clique, 9, training=False).node.tolist()
    shared.forget()
    torch.manual_seed(5)
    drawn = shared.get(clique, 9, training=True).node.tolist()
    assert drawn != fixed
    assert shared.get(clique, 9, training=False).node.tolist() == fixed


def test_graph_cache_compares_contents_and_dtypes_not_objects():
    others = [(PATH.clone(), 3, True), (PATH, 4, False), (PATH.int(), 3, False)]
    for edge_index, num_nodes, same in others:
        cache = GraphCache()
        first = cache.get(PATH, 3, compared=False)
        found = cache.get(edge_index, num_nodes, compared=False)
        assert (found is first) == same


@settings(max_examples=100, deadline=None)
@given(graphs(max_nodes=5), graphs(max_nodes=5))
def test_graph_cache_returns_the_cached_graph_only_for_equal_graphs(one, other):
    cache = GraphCache()
    same = torch.equal(one[0], other[0]) and one[1] == other[1]
    first = cache.get(*one, compared=False)
    assert (cache.get(*other, compared=False) is first) == same


def test_graph_cache_compares_again_on_a_cpu():
    cache, edge_index = GraphCache(), PATH.clone()
    first = cache.get(edge_index, 3, compared=False)
    edge_index.numpy()[:, 3] = 0
    assert cache.get(edge_index, 3, compared=True) is not first


def test_graph_cache_releases_a_graph_whose_tensor_is_freed():
    cache, edge_index = GraphCache(), PATH.clone()
    cached = weakref.ref(cache.get(edge_index, 3, compared=False))
    assert cached() is not None
    del edge_index
    gc.collect()
    assert cached() is None


def test_graph_cache_keeps_a_held_graph_until_it_is_released():
    cache, edge_index = GraphCache(), PATH.clone()
    cache.hold()
    first = cache.get(edge_index, 3, compared=False)
    cached = weakref.ref(first)
    del edge_index
    gc.collect()
    assert cache.get(PATH, 3, compared=False) is first
    del first
    cache.release()
    gc.collect()
    assert cached() is None


def test_graph_cache_does_not_trust_a_tensor_whose_writes_are_not_counted(monkeypatch):
    """On a GPU, edges are not compared twice in a pass if their writes are counted."""

    class OnGPU(torch.Tensor):
        is_cuda = True

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    for inference in (False, True):
        with torch.inference_mode(inference):
            cache, edge_index = GraphCache(), PATH.clone().as_subclass(OnGPU)
            first = cache.get(edge_index, 3, compared=False)
            edge_index.data[:, 3] = 0
            compared = cache.get(edge_index, 3, compared=True) is not first
        assert compared == inference


@settings(max_examples=100, deadline=None)
@given(graphs(max_nodes=5), graphs(max_nodes=5))
def test_fingerprints_are_equal_exactly_for_equal_graphs(one, other):
    same = torch.equal(one[0], other[0]) and one[1] == other[1]
    fingerprints = [CachedGraph(*graph).fingerprint for graph in (one, other)]
    assert (fingerprints[0] == fingerprints[1]) == same


def test_replay_finds_the_sample_of_a_ticket_and_a_graph():
    subgraphs, replayed = EgoNets(1)(PATH, 3), Replay()
    samples = [Sample(seed, subgraphs) for seed in (1, 2)]
    replayed.remember((1, 10), samples[0])
    replayed.remember((2, 10), samples[1])
    assert replayed.find((1, 10)) is samples[0]
    assert replayed.find((2, 10)) is samples[1]
    assert replayed.find((3, 10)) is None
    assert replayed.find((1, 11)) is None


def test_replay_finds_no_sample_if_two_have_the_same_key():
    subgraphs, replayed = EgoNets(1)(PATH, 3), Replay()
    replayed.remember((1, 10), Sample(1, subgraphs))
    replayed.remember((1, 10), Sample(1, subgraphs))
    assert replayed.find((1, 10)) is not None
    for seed in (2, 2, 1):
        replayed.remember((1, 10), Sample(seed, subgraphs))
        assert replayed.find((1, 10)) is None


def test_replay_forgets_the_oldest_sample(monkeypatch):
    monkeypatch.setattr(shared_module, "MAX_CALLS", 3)
    subgraphs, replayed = EgoNets(1)(PATH, 3), Replay()
    for ticket in (0, 1, 2, 0, 3):
        replayed.remember((ticket, 10), Sample(7, subgraphs))
    assert replayed.find((1, 10)) is None
    assert all(replayed.find((ticket, 10)) is not None for ticket in (2, 0, 3))


def test_a_sample_does_not_keep_its_subgraphs_in_memory():
    subgraphs = EgoNets(1)(PATH, 3)
    sample = Sample(1, subgraphs)
    del subgraphs
    assert sample.subgraphs() is None


def test_tickets_differ_and_are_drawn_again_from_the_same_random_state():
    device = torch.device("cpu")
    torch.manual_seed(3)
    tickets = [draw_ticket(device) for _ in range(100)]
    torch.manual_seed(3)
    assert [draw_ticket(device) for _ in range(100)] == tickets
    assert len(set(tickets)) == 100


def test_backward_task_is_known_only_in_a_backward_pass():
    tasks = []
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda _: tasks.append(backward_task()))
    (2 * x).sum().backward()
    assert tasks[0] is not None
    assert backward_task() is None

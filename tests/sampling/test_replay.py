import torch

from gnnak import EgoNets
from gnnak.sampling import replay
from gnnak.sampling.replay import Replay, Sample, backward_task, key_of

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def key(seed: int, num_nodes: int = 3):
    state = torch.Generator().manual_seed(seed).get_state()
    return key_of(state, PATH, num_nodes)


def test_replay_finds_the_sample_of_a_random_state_and_a_graph_size():
    state, subgraphs = torch.get_rng_state(), EgoNets(1)(PATH, 3)
    samples, replayed = [Sample(state, state, subgraphs) for _ in range(2)], Replay()
    replayed.remember(key(1), samples[0])
    replayed.remember(key(2), samples[1])
    assert replayed.find(key(1)) is samples[0]
    assert replayed.find(key(2)) is samples[1]
    assert replayed.find(key(3)) is None
    assert replayed.find(key(1, num_nodes=4)) is None


def test_replay_forgets_the_oldest_sample(monkeypatch):
    monkeypatch.setattr(replay, "MAX_CALLS", 3)
    state, subgraphs, replayed = torch.get_rng_state(), EgoNets(1)(PATH, 3), Replay()
    for seed in (0, 1, 2, 0, 3):
        replayed.remember(key(seed), Sample(state, state, subgraphs))
    assert replayed.find(key(1)) is None
    assert all(replayed.find(key(seed)) is not None for seed in (2, 0, 3))


def test_a_sample_does_not_keep_its_subgraphs_in_memory():
    state, subgraphs = torch.get_rng_state(), EgoNets(1)(PATH, 3)
    sample = Sample(state, state, subgraphs)
    del subgraphs
    assert sample.subgraphs() is None


def test_backward_task_is_known_only_in_a_backward_pass():
    tasks = []
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda _: tasks.append(backward_task()))
    (2 * x).sum().backward()
    assert tasks[0] is not None
    assert backward_task() is None

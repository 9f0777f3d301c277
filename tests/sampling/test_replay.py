import torch

from gnnak import EgoNets
from gnnak.sampling import shared as shared_module
from gnnak.sampling.shared import Replay, Sample, backward_task, draw_ticket

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


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

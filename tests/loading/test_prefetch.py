import threading
import time

import pytest
import torch

from gnnak.loading.prefetch import Prefetcher, prefetch, prefetching_paused
from tests.gpu import needs_gpu
from tests.training.beside import Beside


def ended(thread):
    thread.join(timeout=5)
    return not thread.is_alive()


def test_ahead_on_a_cpu_is_the_iterator_itself():
    results = iter([1, 2])
    assert prefetch(results, torch.device("cpu")) is results


@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_made_ahead_hands_over_every_result_in_order(count):
    lane = Beside()
    assert list(Prefetcher(iter(range(count)), lane)) == list(range(count))
    assert lane.handed == list(range(count))
    assert ended(lane.makers[0])


def test_made_ahead_makes_the_next_one_while_one_is_in_use():
    made = threading.Event()

    def results():
        yield 1
        made.set()
        yield 2

    taken = Prefetcher(results(), Beside())
    assert next(taken) == 1
    assert made.wait(timeout=5)
    assert list(taken) == [2]


def test_made_ahead_stays_close_to_what_is_taken():
    count = 0

    def results():
        nonlocal count
        while True:
            count += 1
            yield count

    taken = Prefetcher(results(), Beside())
    assert [next(taken) for _ in range(3)] == [1, 2, 3]
    time.sleep(0.05)
    assert count <= 5
    taken.close()


def test_made_ahead_raises_an_error_of_the_thread_behind_the_results_before_it():
    def results():
        yield 1
        yield 2
        raise ValueError("no more")

    lane = Beside()
    taken = Prefetcher(results(), lane)
    assert [next(taken), next(taken)] == [1, 2]
    with pytest.raises(ValueError, match="no more"):
        next(taken)
    assert ended(lane.makers[0])


@pytest.mark.parametrize("taken", [1, 3])
def test_made_ahead_closed_early_ends_its_thread(taken):
    lane = Beside()
    results = Prefetcher(iter(range(100)), lane)
    assert [next(results) for _ in range(taken)] == list(range(taken))
    results.close()
    assert not lane.makers[0].is_alive()


def test_nothing_ahead_lets_what_is_being_made_end_and_nothing_begin():
    made = []

    def results():
        for number in range(6):
            made.append("begun")
            time.sleep(0.01)
            made.append("ended")
            yield number

    for _ in Prefetcher(results(), Beside()):
        with prefetching_paused():
            there = list(made)
            assert there.count("begun") == there.count("ended")
            time.sleep(0.02)
            assert made == there


@needs_gpu
def test_ahead_on_a_gpu_gives_what_the_iterator_gives():
    device = torch.device("cuda")

    def results():
        for number in range(20):
            large = torch.full((500, 500), float(number), device=device)
            yield [(large @ large).double().sum()]

    found = [float(one) for (one,) in prefetch(results(), device)]
    assert found == [float(number**2) * 500**3 for number in range(20)]

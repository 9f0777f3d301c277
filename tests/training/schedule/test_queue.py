import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnak.errors import OptionError
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.schedule.pool import (
    Job,
    Queue,
    Task,
    seconds_to_end,
    without_repeats,
)
from gnnak.training.schedule.sweep import grid


def task(seconds: float | None, megabytes: float = 0.0, **more) -> Task:
    expected = math.inf if seconds is None else seconds
    return Task(Job(f"{seconds}", "zinc", RunConfig()), expected, megabytes, **more)


def test_take_returns_the_longest_task_first_and_unknown_ones_before():
    queue = Queue([task(5), task(None), task(9)])
    assert [queue.take([]).seconds for _ in range(3)] == [math.inf, 9, 5]
    assert queue.take([]) is None


def test_take_skips_tasks_that_would_not_end_in_time():
    queue = Queue([task(100), task(20), task(None)])
    assert not queue.take([], 30).is_known
    assert queue.take([], 30).seconds == 20
    assert queue.take([], 30) is None
    assert [each.seconds for each in queue.waiting] == [100]


def test_take_returns_the_shortest_task_first_if_there_is_no_time_for_all():
    queue = Queue([task(9), task(5), task(None), task(7)], workers=2)
    assert [queue.take([], 10).seconds for _ in range(4)] == [math.inf, 5, 9, 7]


def test_take_starts_long_tasks_if_wanted():
    assert Queue([task(100)], long=True).take([], 30).seconds == 100


def test_take_shares_memory_by_estimate():
    queue = Queue([task(9, 60), task(5, 30)], megabytes=100)
    big = queue.take([])
    assert big.megabytes == 60
    assert queue.take([big, task(1, 20)]) is None
    assert queue.take([big]).megabytes == 30


def test_take_starts_a_task_that_is_too_large_for_the_device_if_nothing_runs():
    assert Queue([task(9, 600)], megabytes=100).take([]) is not None


def test_a_task_that_runs_alone_waits_for_all_others_and_they_for_it():
    alone = task(9).retry(alone=True)
    queue = Queue([alone, task(5)])
    short = queue.take([])
    assert short.seconds == 5  # it comes last, although it is longer
    assert queue.take([short]) is None
    assert queue.take([]) == alone
    queue.add(task(5))
    assert queue.take([alone]) is None


@given(st.lists(st.integers(1, 100), min_size=1), st.integers(1, 8))
def test_seconds_to_end_is_a_lower_bound_of_any_schedule(lengths, workers):
    bound = seconds_to_end([task(length) for length in lengths], workers)
    ends = [0.0] * workers
    for length in sorted(lengths, reverse=True):
        ends[ends.index(min(ends))] += length
    assert bound <= max(ends)
    assert bound >= max(max(lengths), sum(lengths) / workers) - 1e-9


def test_seconds_to_end_is_not_known_if_a_task_is_not():
    assert seconds_to_end([task(3), task(None)], 2) is None
    assert seconds_to_end([], 2) == 0


def test_after_estimates_the_rest():
    assert task(10).after(4).seconds == 6
    assert task(10).after(40).seconds == 0
    assert not task(None).after(4).is_known


ZINC = RunConfig()


def test_without_repeats_drops_later_jobs_with_the_same_run():
    other = change(ZINC, {"train.seed": 1})
    jobs = [
        Job("table 1", "zinc", ZINC),
        Job("table 1", "zinc", other),
        Job("table 2", "zinc", ZINC),
        Job("table 2", "another", ZINC),
    ]
    assert without_repeats(jobs) == [jobs[0], jobs[1], jobs[3]]
    assert without_repeats([]) == []


def test_grid_has_every_combination_once():
    pairs = grid(ZINC, {"model.channels": [8, 16], "train.epochs": [1, 2, 3]})
    assert len({config for _, config in pairs}) == 6
    for chosen, config in pairs:
        assert config.model.channels == chosen["model.channels"]
        assert config.train.epochs == chosen["train.epochs"]
    assert grid(ZINC, {}) == [({}, ZINC)]


def test_grid_names_a_wrong_option():
    with pytest.raises(OptionError, match=r"did you mean model\.channels"):
        grid(ZINC, {"model.chanels": [8]})

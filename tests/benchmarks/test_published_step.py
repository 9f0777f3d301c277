"""The step of the published code computes the same numbers as a step of gnnak."""

import pytest

from benchmarks.data import molecules
from benchmarks.published_step import (
    AGREEMENT,
    as_published,
    check_agreement,
    fastest,
    measure,
    models,
)


@pytest.mark.heavy
def test_published_layers_agree_with_those_of_gnnak():
    store = molecules(4)
    for ours in models(store, channels=4, num_layers=2).values():
        assert check_agreement(ours, as_published(ours), store) < AGREEMENT


@pytest.mark.heavy
def test_measure_returns_a_record_with_ratios():
    store = molecules(4)
    name, ours = next(iter(models(store, channels=4, num_layers=1).items()))
    record = measure(name, ours, store, repeats=1)
    assert record["ratio"] == record["published"] / record["seconds"]
    assert record["processor_ratio"] > 0


def test_fastest_runs_the_steps_alternately():
    seen = []
    walls, _ = fastest([lambda: seen.append(0), lambda: seen.append(1)], repeats=2)
    assert seen == [0, 1] * 3
    assert len(walls) == 2

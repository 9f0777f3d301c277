import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim.lr_scheduler import CosineAnnealingLR, ReduceLROnPlateau

from gnnak.training import callbacks as callbacks_module
from gnnak.training.config.run_config import TrainConfig
from gnnak.training.module import learning_rate
from gnnak.training.run import run
from tests.training.small import edge_counts, small_config, stopped_after

SCORES = st.lists(st.floats(0.125, 8, width=32), max_size=40)


def optimizer(rate=1.0):
    return torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=rate)


def test_learning_rate_is_halved_after_a_plateau():
    train = TrainConfig(schedule="plateau", patience=2, learning_rate=8.0)
    scores = [5.0, 4.0, 4.0, 4.5, 4.0, 3.0, 3.0, 3.0, 2.0]
    rates = [learning_rate(train, epoch, scores[:epoch]) for epoch in range(10)]
    assert rates == [8.0, 8.0, 8.0, 8.0, 8.0, 4.0, 4.0, 4.0, 4.0, 4.0]


@given(SCORES, st.integers(1, 4), st.booleans(), st.sampled_from([0.5, 0.9]))
def test_learning_rate_on_plateaus_is_that_of_pytorch(scores, patience, lower, factor):
    adam, options = optimizer(), {"patience": patience, "factor": factor}
    scheduler = ReduceLROnPlateau(adam, "min" if lower else "max", eps=0, **options)
    train = TrainConfig(schedule="plateau", learning_rate=1.0, **options)
    for epoch, score in enumerate(scores):
        ours = learning_rate(train, epoch, scores[:epoch], lower)
        assert ours == pytest.approx(adam.param_groups[0]["lr"], rel=1e-12)
        scheduler.step(score)


def test_factor_changes_only_the_plateau_schedule():
    for schedule in ("step", "cosine"):
        rates = [
            learning_rate(TrainConfig(schedule=schedule, factor=factor), 120)
            for factor in (0.5, 0.9)
        ]
        assert rates[0] == rates[1]


def test_learning_rate_of_the_cosine_schedule_is_that_of_pytorch():
    adam, train = optimizer(), TrainConfig(schedule="cosine", epochs=7, learning_rate=1)
    scheduler = CosineAnnealingLR(adam, T_max=7)
    for epoch in range(7):
        expected = adam.param_groups[0]["lr"]
        assert learning_rate(train, epoch) == pytest.approx(expected)
        adam.step()
        scheduler.step()


@pytest.mark.parametrize(
    ("options", "rates"),
    [
        ({"schedule": "step", "step": 2}, [2, 4, 6, 8, 8, 4, 4, 2]),
        ({"schedule": "plateau", "patience": 1}, [2, 4, 6, 8, 8, 8, 4, 4]),
        (
            {"schedule": "cosine", "epochs": 7},
            [2, 4, 6, 8, 4 + math.sqrt(8), 4, 4 - math.sqrt(8), 0],
        ),
    ],
)
def test_schedules_begin_after_a_linear_warm_up(options, rates):
    train = TrainConfig(warm_up=3, learning_rate=8.0, **options)
    found = [learning_rate(train, epoch, [1.0] * epoch) for epoch in range(8)]
    assert found == pytest.approx(rates)


@pytest.mark.parametrize("warm_up", [0, 3])
def test_run_stops_once_the_learning_rate_is_too_low(warm_up, tmp_path):
    config = small_config(
        train__epochs=9 + warm_up,
        train__schedule="cosine",
        train__learning_rate=1.0e-3,
        train__stop_rate=5.1e-4,
        train__warm_up=warm_up,
    )
    epochs = run(config, edge_counts(), tmp_path)["epochs"]
    assert epochs == warm_up + math.ceil(9 / 2)


@pytest.mark.heavy
def test_resumed_run_has_the_learning_rates_of_the_whole_run(tmp_path, monkeypatch):
    monkeypatch.setattr(callbacks_module, "SAVE_SECONDS", 0.0)
    rates = []
    monkeypatch.setattr(
        "gnnak.training.module.set_rate", lambda _, rate: rates.append(rate)
    )
    config = small_config(train__epochs=6, train__schedule="plateau", train__patience=1)
    run(config, edge_counts(), tmp_path / "whole")
    whole, rates[:] = list(rates), []
    with stopped_after(4, monkeypatch):
        run(config, edge_counts(), tmp_path / "part")
    run(config, edge_counts(), tmp_path / "part", resume=True)
    assert rates == whole
    assert all(later in (rate, rate / 2) for rate, later in pairwise(whole))

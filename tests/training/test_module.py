"""The optimiser, and averages of the weights."""

import pytest
import torch
from torch import nn

from gnnak.training.module import GraphTask, WeightAverage, build_network
from gnnak.training.processes.machine import Machine
from gnnak.training.records.checkpoint import load_checkpoint
from gnnak.training.run import evaluate, run
from tests.gpu import needs_gpu
from tests.training.small import edge_counts, small_config

RATE, DECAY, EPS = 0.25, 0.5, 1e-8


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_weight_decay_is_an_l2_penalty_or_decoupled(name):
    """In Adam's first step, the mean of gradients is g, and that of squares g^2."""
    config = small_config(
        train__optimizer=name, train__learning_rate=RATE, train__weight_decay=DECAY
    )
    info = edge_counts().info
    task = GraphTask(config, info, build_network(config, info).double())
    weights = dict(task.network.named_parameters())
    wanted = {}
    for key, w in weights.items():
        w.grad = g = torch.randn_like(w)
        if name == "adam":
            g = g + DECAY * w.detach()
            wanted[key] = w.detach() - RATE * g / (g.abs() + EPS)
        else:
            wanted[key] = (1 - RATE * DECAY) * w.detach() - RATE * g / (g.abs() + EPS)
    task.configure_optimizers().step()
    torch.testing.assert_close({k: w.detach() for k, w in weights.items()}, wanted)


def floats(network: nn.Module) -> dict[str, torch.Tensor]:
    weights = network.state_dict().items()
    return {k: w.clone() for k, w in weights if w.is_floating_point()}


def averaged(states: list[dict[str, torch.Tensor]], decay: float) -> dict:
    found = dict(states[0])
    for state in states[1:]:
        for name, w in state.items():
            found[name] = decay * found[name] + (1 - decay) * w
    return found


@pytest.mark.parametrize("captured", [False, True])
def test_run_scores_and_stores_the_average_over_all_steps(
    captured, tmp_path, monkeypatch
):
    states, update = [], WeightAverage.update

    def recorded(average, network):
        if not states:
            states.append(floats(average.network))
        states.append(floats(network))
        update(average, network)

    monkeypatch.setattr(WeightAverage, "update", recorded)
    monkeypatch.setattr(Machine, "captures", lambda *_: captured)
    config = small_config(train__average=0.7, train__precision="64", train__epochs=4)
    data = edge_counts(48)
    record = run(config, data, tmp_path, Machine("cpu"))
    checkpoint = load_checkpoint(tmp_path / "best.ckpt")
    assert len(states) == 1 + 4 * 3
    best = states[: 1 + 3 * (record["best_epoch"] + 1)]
    found = {name: checkpoint.weights[name] for name in states[0]}
    torch.testing.assert_close(found, averaged(best, 0.7))
    for part in ("validation", "test"):
        score = evaluate(checkpoint, data, part, Machine("cpu")).score
        assert score == pytest.approx(record["scores"][part])


def test_running_statistics_of_the_average_are_recalibrated(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "gnnak.training.callbacks.recalibrate", lambda network, _: seen.append(network)
    )
    monkeypatch.setattr(
        WeightAverage, "update", lambda average, _: seen.append(average.network)
    )
    config = small_config(train__average=0.9, train__recalibrate=True, train__epochs=1)
    run(config, edge_counts(), tmp_path, Machine("cpu"))
    assert len(seen) == 3
    assert len(set(map(id, seen))) == 1


@needs_gpu
@pytest.mark.parametrize("model", ["gin-ak+", "sswl+-gin"])
def test_averages_of_captured_adamw_steps_are_those_of_plain_ones(model, tmp_path):
    config = small_config(
        model__name=model,
        train__optimizer="adamw",
        train__weight_decay=0.1,
        train__average=0.8,
        train__warm_up=2,
        train__clip=1.0,
        train__epochs=6,
        train__precision="64",
    )
    plain, fast = (
        run(config, edge_counts(48), tmp_path / str(fast), Machine("gpu", fast=fast))
        for fast in (False, True)
    )
    assert (plain["captured"], fast["captured"]) == (False, True)
    for curve in ("train_loss", "validation"):
        found, wanted = (record["curves"][curve] for record in (fast, plain))
        assert found == pytest.approx(wanted, abs=1e-5)

"""Runs that are stopped or killed, and resumed; and a run of two processes."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from gnnak.training import callbacks as callbacks_module
from gnnak.training.config.options import change
from gnnak.training.module import GraphTask
from gnnak.training.processes import stopping
from gnnak.training.processes.machine import Machine
from gnnak.training.processes.stopping import Stopped
from gnnak.training.records.checkpoint import load_checkpoint
from gnnak.training.run import run
from tests.gpu import GPU
from tests.training.small import edge_counts, small_config

RANDOM = {"model.name": "gin-ak+-s", "model.dropout": 0.2, "train.epochs": 20}
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}
"""One thread, since sums of several threads are rounded in another way."""


STEPS = ("training_step", "validation_step", "finish_epoch")


@pytest.fixture
def steps(monkeypatch):
    """The methods that were called; `steps.stop` is the call that sends a signal."""

    class Steps(list):
        stop: tuple[str, int] | None = None
        signal = signal.SIGTERM

    found = Steps()

    def recorded(name):
        original = getattr(GraphTask, name)

        def step(*arguments):
            result = original(*arguments)
            found.append(name)
            if found.stop == (name, found.count(name)):
                os.kill(os.getpid(), found.signal)
            return result

        return step

    for name in STEPS:
        monkeypatch.setattr(GraphTask, name, recorded(name))
    monkeypatch.setattr(callbacks_module, "SAVE_SECONDS", 1000.0)
    return found


CPU = Machine("cpu")


def outcome(folder: Path, record: dict) -> tuple:
    """Return what must be the same bit by bit: curves, scores and best weights."""
    weights = load_checkpoint(folder / "best.ckpt").weights
    return (
        *(record[key] for key in ("curves", "scores", "best_epoch")),
        {name: weight.tolist() for name, weight in weights.items()},
    )


@pytest.fixture
def stopped(tmp_path, steps):
    """Return records and outcomes of a whole run, and of one that stops and goes on."""

    def compare(options, *stops, machine=CPU, patch=nullcontext):
        config, data = change(small_config(), STOPPABLE | options), edge_counts(48)
        whole, part = tmp_path / "whole", tmp_path / "part"
        wanted = run(config, data, whole, machine)
        for stop in stops:
            steps.clear()
            steps.stop = stop
            with patch(), pytest.raises(Stopped, match=STOPPED):
                run(config, data, part, machine, resume=True)
            steps.at_stop = list(steps)
        steps.stop = None
        found = run(config, data, part, machine, resume=True)
        return (wanted, found), (outcome(whole, wanted), outcome(part, found))

    return compare


STOPPED = r"^stopped by SIGTERM; go on with --resume\.$"
STOPPABLE = {
    "model.name": "gin-ak+-s",
    "model.dropout": 0.2,
    "train.batch_size": 5,
    "train.epochs": 4,
}
"""Four epochs, each of 5 training steps and 3 validation steps."""
WALKS = {"model.subgraphs.kind": "walks"}
"""Random subgraphs that the network extracts, also in validation."""
AVERAGED = {
    "train.average": 0.9,
    "train.optimizer": "adamw",
    "train.weight_decay": 0.1,
    "train.warm_up": 2,
}
STOPS = [
    (("training_step", 1), {}),
    (("training_step", 5), {}),
    (("training_step", 8), {}),
    (("training_step", 20), {}),
    (("training_step", 7), WALKS),
    (("training_step", 7), {"train.schedule": "plateau", "train.patience": 1}),
    (("training_step", 7), AVERAGED),
    (("validation_step", 1), {}),
    (("validation_step", 2), WALKS),
    (("validation_step", 5), AVERAGED | {"train.recalibrate": True}),
    (("validation_step", 12), {}),
    (("finish_epoch", 1), {}),
    (("finish_epoch", 4), {}),
]
"""The step in which a run is stopped, and options of the run."""


@pytest.mark.heavy
@pytest.mark.parametrize(("stop", "options"), STOPS)
def test_a_stopped_run_goes_on_after_the_step_bit_by_bit(stop, options, stopped, steps):
    _, (whole, resumed) = stopped(options, stop)
    assert steps.at_stop[-1] == stop[0]
    assert steps.at_stop.count(stop[0]) == stop[1]
    assert whole == resumed
    assert steps.count("training_step") == 20


def test_a_run_stopped_in_a_recalibration_does_it_again(stopped, steps, monkeypatch):
    add = callbacks_module._add

    def add_and_stop(*arguments):
        add(*arguments)
        os.kill(os.getpid(), signal.SIGTERM)

    @contextmanager
    def patch():
        with monkeypatch.context() as patched:
            patched.setattr(stopping, "REPEAT_SECONDS", 1000.0)
            patched.setattr(callbacks_module, "_add", add_and_stop)
            yield

    _, (whole, resumed) = stopped({"train.recalibrate": True}, None, patch=patch)
    assert steps.at_stop == ["training_step"] * 5
    assert whole == resumed


@pytest.mark.parametrize("device", ["cpu", pytest.param("gpu", marks=GPU)])
def test_a_stopped_run_with_captured_steps_has_equal_losses(
    device, stopped, monkeypatch
):
    """Not equal bit by bit: the padded sizes depend on earlier batches."""
    if device == "cpu":
        monkeypatch.setattr(Machine, "captures", lambda *_: True)
    options = AVERAGED | {"model.dropout": 0.0, "train.precision": "64"}
    records, _ = stopped(options, ("training_step", 8), machine=Machine(device))
    for curve in ("train_loss", "validation"):
        wanted, found = (record["curves"][curve] for record in records)
        assert found == pytest.approx(wanted, abs=1e-5)


def of_two_processes(checkpoint):
    checkpoint["unfinished"] *= 2


def of_another_device(checkpoint):
    (state,) = checkpoint["unfinished"]
    state["random"] = {"cuda": state["random"]["cpu"]}


@pytest.mark.parametrize("changed", [of_two_processes, of_another_device])
def test_a_run_stopped_in_an_epoch_goes_on_elsewhere(changed, stopped, monkeypatch):
    save = GraphTask.on_save_checkpoint

    def save_changed(task, checkpoint):
        save(task, checkpoint)
        if "unfinished" in checkpoint:
            changed(checkpoint)

    @contextmanager
    def patch():
        with monkeypatch.context() as patched:
            patched.setattr(GraphTask, "on_save_checkpoint", save_changed)
            yield

    options = {"model.name": "gin-ak+", "model.dropout": 0.0}
    _, (whole, resumed) = stopped(options, ("training_step", 8), patch=patch)
    assert whole == resumed


def test_a_run_that_is_stopped_several_times_goes_on_bit_by_bit(stopped):
    _, (whole, resumed) = stopped({}, *(("training_step", n) for n in (2, 3, 9)))
    assert whole == resumed


def test_ctrl_c_in_python_is_a_keyboard_interrupt_after_the_checkpoint(tmp_path, steps):
    steps.stop, steps.signal = ("training_step", 3), signal.SIGINT
    config = change(small_config(), STOPPABLE)
    with pytest.raises(KeyboardInterrupt):
        run(config, edge_counts(48), tmp_path, Machine("cpu"))
    assert steps == ["training_step"] * 3  # in the first epoch, before any checkpoint
    assert (tmp_path / "last.ckpt").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def program(folder: Path, devices: int, resume: str, options: dict) -> list[str]:
    module = ["-m", "tests.training.small"]
    told = [str(folder), str(devices), resume, json.dumps(options)]
    return [sys.executable, *module, *told]


def run_to_the_end(folder: Path, devices: int, resume: str, options: dict) -> dict:
    command = program(folder, devices, resume, options)
    subprocess.run(
        command, check=True, timeout=300, capture_output=True, env=ONE_THREAD
    )
    return json.loads((folder / "record.json").read_text())


@pytest.mark.slow
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(tmp_path):
    # In a program of its own: other tests leave settings of PyTorch that change sums.
    whole = run_to_the_end(tmp_path / "whole", 1, "new", RANDOM)
    folder = tmp_path / "killed"
    process = subprocess.Popen(program(folder, 1, "new", RANDOM), env=ONE_THREAD)
    deadline = time.monotonic() + 120
    while not (folder / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(timeout=60) == -signal.SIGKILL
    resumed = run_to_the_end(folder, 1, "resume", RANDOM)
    assert resumed["curves"] == whole["curves"]
    assert resumed["scores"] == whole["scores"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "how", "more"),
    [
        ("gin-ak+", "new", {}),
        ("pna*-ak", "new", {}),
        ("gcn", "new", AVERAGED),
        ("gin-ak+", "captured", AVERAGED),
    ],
)
def test_two_processes_have_the_scores_of_one(model, how, more, tmp_path):
    options = more | {
        "data.name": "edges",
        "model.name": model,
        "train.batch_size": 6,
        "train.epochs": 4,
        "train.precision": "64",
    }
    config = change(small_config(), options)
    one = run(config, edge_counts(), tmp_path / "one")
    two = run_to_the_end(tmp_path / "two", 2, how, options)
    assert two["processes"] == 2
    assert two["captured"] == (how == "captured")
    assert two["scores"] == pytest.approx(one["scores"], abs=1e-8)
    for curve in ("validation", "train_loss"):
        ours, theirs = (record["curves"][curve] for record in (one, two))
        assert ours == pytest.approx(theirs, abs=1e-5)

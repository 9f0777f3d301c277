"""Runs that are stopped or killed, and resumed; and a run of two processes."""

import json
import os
import signal
import subprocess
import sys
import time
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
from tests.gpu import needs_gpu
from tests.training.small import edge_counts, small_config

RANDOM = {"model.name": "gin-ak+-s", "model.dropout": 0.2, "train.epochs": 20}
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}
"""One thread, since sums of several threads are rounded in another way."""


STEPS = ("training_step", "validation_step", "finish_epoch")


@pytest.fixture
def steps(monkeypatch):
    """The names of the methods `STEPS` that runs have called so far.

    If `steps.stop` is a pair of a name and a number, this call sends itself a signal.
    """

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


def outcome(folder: Path, record: dict) -> tuple:
    """Return what must be the same bit by bit: curves, scores and best weights."""
    weights = load_checkpoint(folder / "best.ckpt").weights
    return (
        *(record[key] for key in ("curves", "scores", "best_epoch")),
        {name: weight.tolist() for name, weight in weights.items()},
    )


STOPPABLE = {
    "model.name": "gin-ak+-s",
    "model.dropout": 0.2,
    "train.batch_size": 5,
    "train.epochs": 4,
}
"""Four epochs, each of 5 training steps and 3 validation steps."""
WALKS = {"model.subgraphs.kind": "walks"}
"""Random subgraphs that the network extracts, also in validation."""
STOPS = [
    (("training_step", 1), {}),
    (("training_step", 5), {}),
    (("training_step", 8), {}),
    (("training_step", 20), {}),
    (("training_step", 7), WALKS),
    (("training_step", 7), {"train.schedule": "plateau", "train.patience": 1}),
    (("validation_step", 1), {}),
    (("validation_step", 2), WALKS),
    (("validation_step", 5), {"train.recalibrate": True}),
    (("validation_step", 12), {}),
    (("finish_epoch", 1), {}),
    (("finish_epoch", 4), {}),
]
"""The step in which a run is stopped, and options of the run."""


@pytest.mark.heavy
@pytest.mark.parametrize(("stop", "options"), STOPS)
def test_a_stopped_run_goes_on_after_the_step_bit_by_bit(
    stop, options, tmp_path, steps
):
    config = change(small_config(), STOPPABLE | options)
    part, cpu, data = tmp_path / "part", Machine("cpu"), edge_counts(48)
    whole = run(config, data, tmp_path / "whole", cpu)
    wanted = steps.count("training_step")
    steps.clear()
    steps.stop = stop
    with pytest.raises(Stopped, match=r"^stopped by SIGTERM; go on with --resume\.$"):
        run(config, data, part, cpu)
    assert steps[-1] == stop[0]
    assert steps.count(stop[0]) == stop[1]
    steps.stop = None
    rest = run(config, data, part, cpu, resume=True)
    assert outcome(part, rest) == outcome(tmp_path / "whole", whole)
    assert steps.count("training_step") == wanted == 20


def test_a_run_stopped_in_a_recalibration_does_it_again(tmp_path, steps, monkeypatch):
    config = change(small_config(), STOPPABLE | {"train.recalibrate": True})
    cpu, data, part = Machine("cpu"), edge_counts(48), tmp_path / "part"
    whole = run(config, data, tmp_path / "whole", cpu)
    steps.clear()

    add = callbacks_module._add

    def add_and_stop(*arguments):
        add(*arguments)
        os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(stopping, "REPEAT_SECONDS", 1000.0)
        patched.setattr(callbacks_module, "_add", add_and_stop)
        with pytest.raises(Stopped):
            run(config, data, part, cpu)
    assert steps == ["training_step"] * 5
    rest = run(config, data, part, cpu, resume=True)
    assert outcome(part, rest) == outcome(tmp_path / "whole", whole)


def test_a_stopped_run_with_captured_steps_has_equal_losses(
    tmp_path, steps, monkeypatch
):
    monkeypatch.setattr(Machine, "captures", lambda *_: True)
    check_equal_losses("cpu", tmp_path, steps)


@needs_gpu
def test_a_run_on_a_gpu_that_is_stopped_goes_on_with_equal_losses(tmp_path, steps):
    check_equal_losses("gpu", tmp_path, steps)


def check_equal_losses(device, tmp_path, steps):
    """Stop and resume a run with captured steps.

    Its losses are not equal bit by bit: the padded sizes depend on earlier batches.
    """
    more = {"model.dropout": 0.0, "train.precision": "64"}
    config, data = change(small_config(), STOPPABLE | more), edge_counts(48)
    whole = run(config, data, tmp_path / "whole", Machine(device))
    steps.clear()
    steps.stop = ("training_step", 8)
    with pytest.raises(Stopped):
        run(config, data, tmp_path / "part", Machine(device))
    rest = run(config, data, tmp_path / "part", Machine(device), resume=True)
    for curve in ("train_loss", "validation"):
        wanted = whole["curves"][curve]
        assert rest["curves"][curve] == pytest.approx(wanted, abs=1e-5)


def of_two_processes(checkpoint):
    checkpoint["unfinished"] *= 2


def of_another_device(checkpoint):
    (state,) = checkpoint["unfinished"]
    state["random"] = {"cuda": state["random"]["cpu"]}


@pytest.mark.parametrize("changed", [of_two_processes, of_another_device])
def test_a_run_stopped_in_an_epoch_goes_on_elsewhere(
    changed, tmp_path, steps, monkeypatch
):
    config = change(
        small_config(), STOPPABLE | {"model.name": "gin-ak+", "model.dropout": 0.0}
    )
    cpu, data, part = Machine("cpu"), edge_counts(48), tmp_path / "part"
    whole = run(config, data, tmp_path / "whole", cpu)
    steps.clear()
    steps.stop, save = ("training_step", 8), GraphTask.on_save_checkpoint

    def save_changed(task, checkpoint):
        save(task, checkpoint)
        if "unfinished" in checkpoint:
            changed(checkpoint)

    with monkeypatch.context() as patched:
        patched.setattr(GraphTask, "on_save_checkpoint", save_changed)
        with pytest.raises(Stopped):
            run(config, data, part, cpu)
    rest = run(config, data, part, cpu, resume=True)
    assert outcome(part, rest) == outcome(tmp_path / "whole", whole)


def test_a_run_that_is_stopped_several_times_goes_on_bit_by_bit(tmp_path, steps):
    config, part = change(small_config(), STOPPABLE), tmp_path / "part"
    cpu, data = Machine("cpu"), edge_counts(48)
    whole = run(config, data, tmp_path / "whole", cpu)
    for number in (2, 3, 9):
        steps.clear()
        steps.stop = ("training_step", number)
        with pytest.raises(Stopped):
            run(config, data, part, cpu, resume=True)
    steps.stop = None
    rest = run(config, data, part, cpu, resume=True)
    assert outcome(part, rest) == outcome(tmp_path / "whole", whole)


def test_ctrl_c_in_python_is_a_keyboard_interrupt_after_the_checkpoint(tmp_path, steps):
    steps.stop, steps.signal = ("training_step", 7), signal.SIGINT
    config = change(small_config(), STOPPABLE)
    with pytest.raises(KeyboardInterrupt):
        run(config, edge_counts(48), tmp_path, Machine("cpu"))
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
@pytest.mark.parametrize("model", ["gin-ak+", "pna*-ak", "gcn"])
def test_two_processes_have_the_scores_of_one(model, tmp_path):
    options = {
        "data.name": "edges",
        "model.name": model,
        "train.batch_size": 6,
        "train.epochs": 4,
        "train.precision": "64",
    }
    config = change(small_config(), options)
    one = run(config, edge_counts(), tmp_path / "one")
    two = run_to_the_end(tmp_path / "two", 2, "new", options)
    assert two["processes"] == 2
    assert two["scores"] == pytest.approx(one["scores"], abs=1e-8)
    for curve in ("validation", "train_loss"):
        ours, theirs = (record["curves"][curve] for record in (one, two))
        assert ours == pytest.approx(theirs, abs=1e-5)

"""Tests that start programs: a run that is killed, and a run of two processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gnnak.training.config.options import change
from gnnak.training.run import run
from tests.training.small import edge_counts, small_config

RANDOM = {"model.name": "gin-ak+-s", "model.dropout": 0.2, "train.epochs": 20}
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}
"""One thread, since sums of several threads are rounded in another way."""


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

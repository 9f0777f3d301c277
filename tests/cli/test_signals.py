"""Signals sent to the program: its exit code, message, and remaining files."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gnnak.cli.program import app
from gnnak.training.processes.workers import MAIN
from tests.cli.training import records
from tests.gpu import needs_gpu

TRAIN = (
    *("train", "csl", "--fold", "0", "--model", "gin", "--accelerator", "cpu"),
    *("--set", "model.num_layers=1", "--set", "model.channels=8"),
    *("--set", "train.batch_size=90"),
)
ENDLESS = (*TRAIN, "--set", "train.epochs=100000")
ROOT = Path(__file__).parents[2]


def start(folder: Path, *arguments: str) -> subprocess.Popen:
    """Start the program in a new session, as a terminal would."""
    environment = {k: v for k, v in os.environ.items() if k != MAIN}
    return subprocess.Popen(
        [sys.executable, "-m", "gnnak.cli", *arguments],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(done) -> None:
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)


def last_checkpoints(folder: Path) -> list[Path]:
    return list(folder.glob("runs/*/last.ckpt"))


def members(session: int) -> list[int]:
    """Return the live processes of a session, without zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[3]) == session:
            found.append(int(stat.parent.name))
    return found


def end(process: subprocess.Popen) -> tuple[str, str]:
    """Wait for the end, return stdout and stderr, kill what is left of the session."""
    try:
        return process.communicate(timeout=120)
    finally:
        for number in members(process.pid):
            os.kill(number, signal.SIGKILL)


def assert_stops(number: signal.Signals, tmp_path: Path, *arguments: str) -> None:
    """Stop the program after an epoch; it writes a checkpoint and says how to go on."""
    process = start(tmp_path, *arguments)
    wait_for(lambda: last_checkpoints(tmp_path))
    (last,) = last_checkpoints(tmp_path)
    written = last.stat().st_mtime_ns
    process.send_signal(number)
    out, err = end(process)
    assert process.returncode == 128 + number
    assert out == ""
    told = f"error: stopped by {number.name}; go on with --resume."
    assert err.splitlines()[-1] == told
    assert "Traceback" not in err
    assert last.stat().st_mtime_ns > written
    assert records(tmp_path) == []


@pytest.mark.slow
def test_train_that_is_interrupted_says_how_to_go_on(tmp_path):
    assert_stops(signal.SIGINT, tmp_path, *ENDLESS)


def test_train_that_is_terminated_says_how_to_go_on_and_is_resumed_to_its_end(
    tmp_path, monkeypatch
):
    few = (*TRAIN, "--set", "train.epochs=60")
    assert_stops(signal.SIGTERM, tmp_path, *few)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [*few, "--resume"])
    assert result.exit_code == 0, result.output
    (record,) = records(tmp_path)
    assert record["epochs"] == 60
    assert not last_checkpoints(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0.0, 2.0])
def test_train_that_is_stopped_before_it_begins_leaves_no_traceback(
    seconds, number, tmp_path
):
    process = start(tmp_path, *ENDLESS)
    maps = Path(f"/proc/{process.pid}/maps")
    wait_for(lambda: "libtorch" in maps.read_text())
    time.sleep(seconds)
    process.send_signal(number)
    _, err = end(process)
    assert process.returncode == 128 + number, err
    assert err.splitlines()[-1].startswith(f"error: stopped by {number.name}")
    assert "Traceback" not in err


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
@pytest.mark.slow
@pytest.mark.parametrize("everybody", [False, True])
def test_train_of_two_processes_leaves_none_behind(everybody, tmp_path):
    process = start(tmp_path, *ENDLESS, "--devices", "2")
    wait_for(lambda: last_checkpoints(tmp_path))
    assert len(members(process.pid)) == 2
    if everybody:
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(60)
        wait_for(lambda: not members(process.pid))
    finally:
        _, err = end(process)
    assert process.returncode == (130 if everybody else 143)
    assert err.splitlines()[-1].endswith("go on with --resume.")
    assert "Traceback" not in err


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
def test_train_of_two_processes_ends_with_the_one_that_was_killed(tmp_path):
    process = start(tmp_path, *ENDLESS, "--devices", "2")
    wait_for(lambda: last_checkpoints(tmp_path))
    process.kill()
    process.wait(60)
    try:
        wait_for(lambda: not members(process.pid))
    finally:
        end(process)


def lose_one(which: str, number: signal.Signals, tmp_path: Path) -> str:
    """Send a signal to the main process or the worker; return what the rest printed.

    All processes must have ended a minute later.
    """
    process = start(tmp_path, *ENDLESS, "--devices", "2")
    try:
        wait_for(lambda: last_checkpoints(tmp_path))
        (worker,) = set(members(process.pid)) - {process.pid}
        lost, rest = worker, process.pid
        if which == "main":
            lost, rest = rest, lost
        os.kill(lost, number)
        wait_for(lambda: rest not in members(process.pid))
        if which == "main" and number == signal.SIGSTOP:
            process.kill()
        process.wait(60)
        wait_for(lambda: not members(process.pid))
    finally:
        _, err = end(process)
    assert "Traceback" not in err
    return err


LOSSES = [
    ("worker", signal.SIGKILL, "worker process 1 was killed by SIGKILL"),
    ("main", signal.SIGKILL, "the main process was killed"),
    pytest.param(
        *("worker", signal.SIGSTOP, "worker process 1 does not answer any more"),
        marks=pytest.mark.slow,
    ),
    pytest.param(
        *("main", signal.SIGSTOP, "the main process does not answer any more"),
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
@pytest.mark.parametrize(("which", "number", "told"), LOSSES)
def test_train_of_two_processes_ends_with_a_sentence_if_one_is_lost(
    which, number, told, tmp_path
):
    err = lose_one(which, number, tmp_path)
    sentence = f"error: {told}, so the run ended; go on with --resume."
    assert [line for line in err.splitlines() if "error" in line] == [sentence]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
def test_train_goes_on_after_a_worker_was_killed(tmp_path):
    few = (*TRAIN, "--set", "train.epochs=60", "--devices", "2")
    process = start(tmp_path, *few)
    wait_for(lambda: last_checkpoints(tmp_path))
    (worker,) = set(members(process.pid)) - {process.pid}
    os.kill(worker, signal.SIGKILL)
    end(process)
    assert process.returncode == 2
    assert records(tmp_path) == []
    process = start(tmp_path, *few, "--resume")
    _, err = end(process)
    assert process.returncode == 0, err
    (record,) = records(tmp_path)
    assert (record["epochs"], record["processes"]) == (60, 2)


def spawned(session: int) -> list[int]:
    """Return the processes of a session that Python's multiprocessing started."""
    found = []
    for number in members(session):
        try:
            command = Path(f"/proc/{number}/cmdline").read_text()
        except OSError:
            continue
        if "spawn_main" in command:
            found.append(number)
    return found


def kill_a_worker_of_a_sweep(accelerator: str, epochs: int, folder: Path) -> None:
    """Kill one of two workers; its run is queued again, and both runs are recorded."""
    options = (
        *("--seeds", "2", "--jobs", "2", "--accelerator", accelerator),
        *("--set", f"train.epochs={epochs}", "--set", "model.name=gin"),
        *("--set", "model.channels=8", "--set", "model.num_layers=1"),
    )
    process = start(folder, "sweep", "triangles", *options)
    try:
        wait_for(lambda: len(last_checkpoints(folder)) == 2)
        os.kill(spawned(process.pid)[0], signal.SIGKILL)
    finally:
        _, err = end(process)
    assert process.returncode == 0, err
    assert err.count("killed by SIGKILL; queued again, to be resumed") == 1
    found = [(record["seed"], record["epochs"]) for record in records(folder)]
    assert sorted(found) == [(0, epochs), (1, epochs)]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
def test_sweep_ends_the_run_of_a_worker_that_was_killed(tmp_path):
    kill_a_worker_of_a_sweep("cpu", 400, tmp_path)


@needs_gpu
def test_sweep_on_a_gpu_ends_the_run_of_a_worker_that_was_killed(tmp_path):
    kill_a_worker_of_a_sweep("gpu", 2000, tmp_path)


@pytest.mark.slow
def test_train_of_two_processes_runs_every_fold_once(tmp_path):
    folds = [word for word in TRAIN if word not in ("--fold", "0")]
    process = start(tmp_path, *folds, "--set", "train.epochs=1", "--devices", "2")
    out, err = end(process)
    assert process.returncode == 0, err
    told = [(record["fold"], record["processes"]) for record in records(tmp_path)]
    assert told == [(fold, 2) for fold in range(5)]
    assert sum("fold" in line for line in out.splitlines()) == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stoppable_at_once_ends_where_exceptions_are_swallowed(number, tmp_path):
    code = """
        import time
        from gnnak.training.processes.stopping import stoppable_at_once
        with stoppable_at_once():
            print("ready", flush=True)
            try:
                time.sleep(60)
            except BaseException:
                print("swallowed", flush=True)
        """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, err = end(process)
    assert process.returncode == 128 + number
    assert (out, err) == ("", f"error: stopped by {number.name}.\n")

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from torch.distributed import DistNetworkError

from gnnak.errors import TrainingError
from gnnak.training.processes import workers
from gnnak.training.processes import workers as workers_module
from gnnak.training.processes.workers import FOLDER, Listener, Monitor, beat, watched


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.delenv(workers.MAIN, raising=False)
    monkeypatch.setattr(workers, "POLL_SECONDS", 0.01)


def test_become_main_makes_later_processes_workers(monkeypatch):
    monkeypatch.setenv(workers.MAIN, "")
    monkeypatch.delenv(workers.MAIN)
    assert not workers.is_worker()
    workers.become_main()
    assert not workers.is_worker()
    code = (
        "from gnnak.training.processes.workers import is_worker;"
        "exit(7 if is_worker() else 0)"
    )
    child = subprocess.run([sys.executable, "-c", code], timeout=60)
    assert child.returncode == 7


def test_main_is_gone_checks_the_parent_process(monkeypatch):
    monkeypatch.setenv(workers.MAIN, str(os.getppid()))
    assert not workers.main_is_gone(0.05)
    monkeypatch.setenv(workers.MAIN, "0")
    assert workers.main_is_gone()


def test_follow_main_starts_one_watcher():
    code = (
        "import os, threading; os.environ['GNNAK_MAIN_PROCESS'] = str(os.getppid());"
        "from gnnak.training.processes.workers import follow_main;"
        "follow_main(); follow_main(); exit(threading.active_count())"
    )
    child = subprocess.run([sys.executable, "-c", code], timeout=60)
    assert child.returncode == 2


def test_follow_main_ends_a_worker_whose_main_is_gone():
    code = (
        "import os, time; os.environ['GNNAK_MAIN_PROCESS'] = '1';"
        "os.getppid = lambda: 2;"
        "from gnnak.training.processes.workers import follow_main;"
        "follow_main(); time.sleep(60)"
    )
    begin = time.monotonic()
    child = subprocess.run([sys.executable, "-c", code], timeout=60)
    assert child.returncode == 1
    assert time.monotonic() - begin < 50


@pytest.fixture
def folder(monkeypatch):
    """The folder of the heartbeats, which the test removes."""
    monkeypatch.setenv(FOLDER, "")
    monkeypatch.delenv(FOLDER)
    monkeypatch.setattr(workers_module.atexit, "register", lambda _: None)
    workers_module.start_heartbeats()
    yield Path(os.environ[FOLDER])
    workers_module.end_heartbeats()


def test_start_heartbeats_makes_one_folder_and_end_heartbeats_removes_it(folder):
    workers_module.start_heartbeats()
    assert Path(os.environ[FOLDER]) == folder
    assert workers_module.has_heartbeats()
    workers_module.end_heartbeats()
    assert not folder.exists()
    assert not workers_module.has_heartbeats()
    workers_module.end_heartbeats()


def test_beat_changes_the_file_of_this_process(folder, monkeypatch):
    beat()
    monkeypatch.setenv("LOCAL_RANK", "3")
    beat()
    assert {path.name for path in folder.iterdir()} == {"0", "3"}
    workers_module.end_heartbeats()
    beat()


def test_listener_counts_calls_without_a_heartbeat(folder):
    listener = Listener(workers_module.FROZEN_SECONDS / 3)
    assert not listener.is_frozen(0)  # it has never sent a heartbeat
    beat()
    assert [listener.is_frozen(0) for _ in range(4)] == [False, False, False, True]
    os.utime(folder / "0", ns=(1, 1))
    assert [listener.is_frozen(0) for _ in range(4)] == [False, False, False, True]


@pytest.fixture
def started(monkeypatch):
    monkeypatch.delenv(workers.MAIN, raising=False)
    monkeypatch.setattr(workers_module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(workers_module, "NOTICE_SECONDS", 0.2)
    watcher = Monitor()
    monkeypatch.setattr(workers_module, "_monitor", lambda: watcher)
    monkeypatch.setattr(watcher, "_leave", lambda _: sys.exit())
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    procs = [subprocess.Popen(sleep) for _ in range(2)]
    yield watcher, procs
    for process in procs:
        process.kill()
        process.wait(60)


def trainer(procs, world_size=3):
    launcher = SimpleNamespace(procs=list(procs))
    strategy = SimpleNamespace(launcher=launcher)
    return SimpleNamespace(world_size=world_size, strategy=strategy)


def lose(given, cause):
    """Call `cause` in a watched run, then fail as PyTorch's communication does."""
    with watched(given):
        cause()
        raise RuntimeError("Connection closed by peer")


def test_watched_tells_which_worker_was_killed_and_ends_the_others(started):
    watcher, procs = started
    watcher.start()
    with pytest.raises(TrainingError, match="worker process 2 was killed by SIGKILL"):
        lose(trainer(procs), procs[1].kill)
    assert procs[0].wait(60) == -9


def test_watched_kills_a_frozen_worker(started, monkeypatch):
    watcher, procs = started
    monkeypatch.setattr(Listener, "is_frozen", lambda self, rank: rank == 1)
    watcher.start()
    with pytest.raises(TrainingError, match="worker process 1 does not answer any"):
        lose(trainer(procs), lambda: procs[0].wait(60))
    assert procs[0].returncode == -9


def test_watched_ends_a_main_process_that_waits_for_ever(started, monkeypatch):
    watcher, procs = started
    monkeypatch.setattr(workers_module, "GRACE_SECONDS", 0.05)
    left = threading.Event()
    monkeypatch.setattr(watcher, "_leave", lambda _: left.set())
    watcher.start()
    with watched(trainer(procs)):
        procs[0].kill()
        assert left.wait(60)


def test_watched_takes_the_workers_from_lightning(started):
    watcher, procs = started
    watcher.start()
    given = trainer(procs)
    with watched(given):
        deadline = time.monotonic() + 60
        while given.strategy.launcher.procs and time.monotonic() < deadline:
            time.sleep(0.01)
        assert given.strategy.launcher.procs == []
        assert watcher.workers == procs
    assert all(process.poll() is None for process in procs)


def test_watched_leaves_other_errors_alone(started):
    watcher, procs = started
    watcher.start()
    with pytest.raises(RuntimeError, match="shapes"), watched(trainer(procs)):
        raise RuntimeError("shapes cannot be multiplied")
    with (
        pytest.raises(TrainingError, match=r"between the processes failed \(lost\)"),
        watched(trainer([])),
    ):
        raise DistNetworkError("lost")
    with pytest.raises(RuntimeError, match="gloo"), watched(trainer([], 1)):
        raise RuntimeError("gloo")

import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from torch.distributed import DistNetworkError

from gnnak.errors import TrainingError
from gnnak.training.processes import workers
from gnnak.training.processes import workers as workers_module
from gnnak.training.processes.workers import Listener, Monitor, watched


@pytest.fixture
def started(monkeypatch):
    """A monitor for this test only, and workers that sleep."""
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

import os
import signal
import subprocess
import sys
import time

import pytest

from gnnak.training.processes import workers
from gnnak.training.processes.stopping import stoppable


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


def test_stoppable_changes_no_signals_in_a_worker(monkeypatch):
    monkeypatch.setenv(workers.MAIN, str(os.getppid()))
    before = signal.getsignal(signal.SIGTERM)
    with stoppable():
        assert signal.getsignal(signal.SIGTERM) == before


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

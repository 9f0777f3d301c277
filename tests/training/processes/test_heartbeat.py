import os
from pathlib import Path

import pytest

from gnnak.training.processes import workers as workers_module
from gnnak.training.processes.workers import FOLDER, Listener, beat


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

import os
from pathlib import Path

import pytest

from gnnak.training.processes import heartbeat
from gnnak.training.processes.workers import FOLDER, Listener, beat


@pytest.fixture
def folder(monkeypatch):
    """The folder of the heartbeats, which the test removes."""
    monkeypatch.setenv(FOLDER, "")
    monkeypatch.delenv(FOLDER)
    monkeypatch.setattr(heartbeat.atexit, "register", lambda _: None)
    heartbeat.start_heartbeats()
    yield Path(os.environ[FOLDER])
    heartbeat.end_heartbeats()


def test_start_heartbeats_makes_one_folder_and_end_heartbeats_removes_it(folder):
    heartbeat.start_heartbeats()
    assert Path(os.environ[FOLDER]) == folder
    assert heartbeat.has_heartbeats()
    heartbeat.end_heartbeats()
    assert not folder.exists()
    assert not heartbeat.has_heartbeats()
    heartbeat.end_heartbeats()


def test_beat_changes_the_file_of_this_process(folder, monkeypatch):
    beat()
    monkeypatch.setenv("LOCAL_RANK", "3")
    beat()
    assert {path.name for path in folder.iterdir()} == {"0", "3"}
    heartbeat.end_heartbeats()
    beat()


def test_listener_counts_calls_without_a_heartbeat(folder):
    listener = Listener(heartbeat.FROZEN_SECONDS / 3)
    assert not listener.is_frozen(0)  # it has never sent a heartbeat
    beat()
    assert [listener.is_frozen(0) for _ in range(4)] == [False, False, False, True]
    os.utime(folder / "0", ns=(1, 1))
    assert [listener.is_frozen(0) for _ in range(4)] == [False, False, False, True]

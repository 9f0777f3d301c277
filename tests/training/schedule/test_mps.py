import os
import stat

import pytest

from gnnak.training.schedule import pool as pool_module
from gnnak.training.schedule.pool import FOLDERS, PROGRAM, multi_process_service


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Put a program of this name on the path; it writes down how it was called."""
    for name in FOLDERS:
        monkeypatch.delenv(name, raising=False)
    calls, script = tmp_path / "calls", tmp_path / PROGRAM

    def write(exit_code: int) -> None:
        lines = ["#!/bin/sh", f'echo "$* $(cat)" >> {calls}', f"exit {exit_code}"]
        script.write_text("\n".join(lines))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    write(0)
    return calls, write


def test_the_service_runs_inside_the_block_and_is_ended(program):
    calls, _ = program
    with multi_process_service() as started:
        assert started
        folder = os.environ[FOLDERS[0]]
        assert os.path.isdir(folder)
        assert calls.read_text() == "-d \n"
    assert calls.read_text().split() == ["-d", "quit"]
    assert not os.path.exists(folder)
    assert not any(name in os.environ for name in FOLDERS)


def test_the_service_is_ended_after_an_error(program):
    calls, _ = program
    with pytest.raises(ZeroDivisionError), multi_process_service():
        raise ZeroDivisionError
    assert calls.read_text().split() == ["-d", "quit"]


def test_a_service_that_cannot_start_is_not_ended(program):
    calls, write = program
    write(1)
    with multi_process_service() as started:
        assert not started
    assert calls.read_text().split() == ["-d"]


def test_a_service_of_the_user_is_left_alone(program, monkeypatch, tmp_path):
    calls, _ = program
    (tmp_path / "control").touch()
    monkeypatch.setenv(FOLDERS[0], str(tmp_path))
    with multi_process_service() as started:
        assert not started
    assert not calls.exists()
    assert os.environ[FOLDERS[0]] == str(tmp_path)


def test_a_folder_without_a_service_is_not_used(program, monkeypatch, tmp_path):
    calls, _ = program
    monkeypatch.setenv(FOLDERS[0], str(tmp_path))
    with multi_process_service() as started:
        assert started
        assert os.environ[FOLDERS[0]] != str(tmp_path)
    assert calls.read_text().split() == ["-d", "quit"]
    assert os.environ[FOLDERS[0]] == str(tmp_path)


def test_without_the_program_nothing_happens(monkeypatch):
    monkeypatch.setattr(pool_module.shutil, "which", lambda _: None)
    with multi_process_service() as started:
        assert not started

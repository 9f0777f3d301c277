import os
import signal
import subprocess
import sys

import pytest

from gnnak.errors import FileFormatError, TrainingError
from gnnak.graphs.readers.files import locked_file
from gnnak.training.processes import locks
from gnnak.training.processes.locks import LOCK, is_reserved, reserved
from gnnak.training.run import run
from tests.training.small import small_config, triangles

HOLD = """
import sys, time
from pathlib import Path
from gnnak.training.processes.locks import reserved
with reserved(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_run_refuses_a_folder_that_another_process_uses_until_it_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        told = rf"is in use by another run \(process {other.pid} on .*\); wait until"
        try:
            with pytest.raises(TrainingError, match=told):
                run(small_config(), triangles(4), tmp_path)
            with pytest.raises(TrainingError, match=told):
                run(small_config(), triangles(4), tmp_path, resume=True)
        finally:
            other.kill()
        assert other.wait(60) == -signal.SIGKILL
    assert (tmp_path / LOCK).exists()
    assert run(small_config(train__epochs=1), triangles(4), tmp_path)["epochs"] == 1


def test_reserved_is_released_at_the_end_and_after_errors(tmp_path):
    for _ in range(2):
        with pytest.raises(KeyError), reserved(tmp_path):
            raise KeyError
    with (
        reserved(tmp_path),
        pytest.raises(TrainingError, match="is in use"),
        reserved(tmp_path),
    ):
        pass


def test_is_reserved_tells_while_a_process_has_the_lock(tmp_path):
    assert not is_reserved(tmp_path / "run")
    with reserved(tmp_path / "run"):
        assert is_reserved(tmp_path / "run")
        (tmp_path / LOCK).touch()
        assert not is_reserved(tmp_path)
    assert not is_reserved(tmp_path / "run")


def test_reserved_leaves_no_lock_file_and_no_empty_folder(tmp_path):
    with reserved(tmp_path / "empty"):
        assert (tmp_path / "empty" / LOCK).exists()
    with reserved(tmp_path / "full"):
        (tmp_path / "full" / "config.yaml").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "config.yaml"]


def test_reserved_does_not_trust_a_lock_file_that_was_removed(tmp_path, monkeypatch):
    opened, real = [], locks._open

    def open_late(folder):
        file = real(folder)
        if not opened:  # another run ends between opening and locking
            (folder / LOCK).unlink()
        opened.append(file)
        return file

    monkeypatch.setattr(locks, "_open", open_late)
    with reserved(tmp_path):
        assert len(opened) == 2
        with pytest.raises(TrainingError, match="is in use"), reserved(tmp_path):
            pass


def test_reserved_locks_nothing_in_workers_and_further_machines(tmp_path, monkeypatch):
    with reserved(tmp_path):
        monkeypatch.setenv("NODE_RANK", "1")
        with reserved(tmp_path):
            pass


def test_reserved_goes_on_where_the_file_system_has_no_locks(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with (
        reserved(tmp_path),
        (tmp_path / LOCK).open("rb", buffering=0) as file,
        locked_file(file),
    ):
        assert file.read().startswith(f"process {os.getpid()} on ".encode())


def test_reserved_explains_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / LOCK).mkdir()
    with (
        pytest.raises(FileFormatError, match=r"run\.lock cannot be written: Is a dir"),
        reserved(tmp_path),
    ):
        pass

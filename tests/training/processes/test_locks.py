import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
from threading import Timer

import pytest

from gnnak.errors import FileFormatError, TrainingError
from gnnak.graphs.readers.files import locked_file
from gnnak.training.processes import locks
from gnnak.training.processes.locks import LOCK, is_reserved, reserved
from gnnak.training.run import run
from tests.training.small import small_config, triangles

HOLD = """
import socket, sys, time
from pathlib import Path
from gnnak.training.processes import locks
from gnnak.training.processes.locks import reserved
socket.gethostname, locks.BEAT_SECONDS = lambda: sys.argv[2], 0.1
with reserved(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def quick(monkeypatch):
    """Let owners on other machines count as dead after a second."""
    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(locks, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(locks, "SILENT_SECONDS", 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [socket.gethostname(), "another"])
def test_run_refuses_a_folder_that_another_process_uses_until_it_is_killed(
    machine, quick, tmp_path
):
    command = [sys.executable, "-c", HOLD, str(tmp_path), machine]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
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


def test_reserved_leaves_the_lock_of_a_machine_that_took_over(tmp_path):
    with reserved(tmp_path):
        (tmp_path / LOCK).rename(tmp_path / "old")
        (tmp_path / LOCK).write_text("process 7 on another")
    assert (tmp_path / LOCK).exists()


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


def on(machine, monkeypatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: machine)


@pytest.mark.parametrize("shared", [True, False])
def test_reserved_refuses_a_folder_while_its_owner_on_another_machine_is_alive(
    shared, quick, tmp_path, monkeypatch
):
    on("first", monkeypatch)
    with reserved(tmp_path):
        on("second", monkeypatch)
        if not shared:  # the file system locks only between processes of one machine
            monkeypatch.setattr(locks, "try_lock", lambda _: True)
        with pytest.raises(TrainingError, match=r"on first\)"), reserved(tmp_path):
            pass
    with reserved(tmp_path):
        pass


@pytest.mark.parametrize("is_locked", [True, False])
def test_reserved_recognises_the_lock_of_a_machine_that_crashed(
    is_locked, quick, tmp_path, caplog
):
    with (tmp_path / LOCK).open("a+b", buffering=0) as left:
        left.write(b"process 7 on crashed")
        if is_locked:  # still, on the file server
            fcntl.flock(left, fcntl.LOCK_EX)
        with reserved(tmp_path):
            assert f"{os.getpid()}" in (tmp_path / LOCK).read_text()
            assert is_reserved(tmp_path)
    assert "was locked by another machine (process 7 on crashed)" in caplog.text
    assert not tmp_path.exists()


def test_reserved_takes_a_lock_that_another_machine_releases_meanwhile(quick, tmp_path):
    (tmp_path / LOCK).write_text("process 7 on another")
    end = Timer(0.2, (tmp_path / LOCK).unlink)
    end.start()
    with reserved(tmp_path):
        end.join()
        assert is_reserved(tmp_path)


def test_locks_hold_where_only_files_open_for_writing_can_be_locked(
    tmp_path, monkeypatch
):
    """On NFS, Linux turns `flock` into a lock of POSIX, which needs a writable file."""
    real = fcntl.flock

    def flock(file, kind):
        mode = fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE
        if mode == os.O_RDONLY and kind & fcntl.LOCK_EX:
            raise OSError(errno.EBADF, "Bad file descriptor")
        real(file, kind)

    monkeypatch.setattr(fcntl, "flock", flock)
    with reserved(tmp_path):
        assert is_reserved(tmp_path)


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

"""NVIDIA's multi-process service (MPS): kernels of several processes run in parallel.

Without it, a GPU switches between processes and runs the kernels of one at a time.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = "nvidia-cuda-mps-control"
"""The program that starts and ends the service; it comes with NVIDIA's driver."""
FOLDERS = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
"""Environment variables by which processes find the service."""
WAIT_SECONDS = 20
"""Seconds to wait for the program to start or end the service."""


@contextmanager
def multi_process_service() -> Iterator[bool]:
    """Context manager: processes that are started inside share the GPU through MPS.

    The service is ended on exit. It is not started if the user already runs one in the
    folder that the environment names, or if its program is missing or fails.

    Yields:
        Whether the service was started.
    """
    program = shutil.which(PROGRAM)
    before = {name: os.environ[name] for name in FOLDERS if name in os.environ}
    if program is None or _is_running(before.get(FOLDERS[0])):
        yield False
        return
    with tempfile.TemporaryDirectory(prefix="gnnak-mps-") as folder:
        for name in FOLDERS:
            os.environ[name] = folder
        started = _call([program, "-d"])
        try:
            yield started
        finally:
            if started:
                _call([program], "quit\n")
            for name in FOLDERS:
                del os.environ[name]
            os.environ.update(before)


def _is_running(folder: str | None) -> bool:
    """Return whether the service listens in a folder; None = no folder is known."""
    return folder is not None and (Path(folder) / "control").exists()


def _call(command: list[str], text: str = "") -> bool:
    """Run a program with `text` as its input; return whether it succeeded."""
    try:
        done = subprocess.run(
            command,
            input=text,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=WAIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0

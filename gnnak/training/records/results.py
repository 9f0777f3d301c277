"""Records of runs and benchmarks, stored in a file with one line of JSON per record.

Records are only appended; existing lines are never changed.
"""

import errno
import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from io import FileIO
from pathlib import Path
from typing import Any

import torch

from gnnak import __version__
from gnnak.errors import FileFormatError
from gnnak.graphs.readers.files import make_folder

Record = dict[str, Any]
"""The config, results and environment of a run or a benchmark, as a dict that can be
written as one line of JSON."""


def environment(device: torch.device | str = "cpu") -> Record:
    """Return the environment of a run: device, versions, commit and time."""
    device = torch.device(device)
    name = platform.processor() or platform.machine()
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    return {
        "device": name,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {"gnnak": __version__}
        | {name: version(name) for name in ("torch", "torch_geometric", "numpy")},
        "commit": _commit(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def six_digits(value: float) -> float:
    """Round a number to six significant digits, to make records small."""
    return float(f"{value:.6g}")


def append_record(path: Path, record: Record) -> None:
    """Append a record to a file, as one line of JSON.

    The line is written by a single system call, so that the lines of parallel runs do
    not mix.

    Raises:
        FileFormatError: If the file cannot be written; it then stays unchanged.
    """
    line = json.dumps(record, sort_keys=True, allow_nan=False) + "\n"
    check_appendable(path)
    try:
        with path.open("ab", buffering=0) as file:
            _write_whole(file, line.encode())
            os.fsync(file.fileno())
    except OSError as error:
        raise FileFormatError(_unwritable(path, error)) from error


def check_appendable(path: Path) -> None:
    """Check before a long run that its record can be appended to a file.

    Raises:
        FileFormatError: If the file cannot be written.
    """
    make_folder(path.parent)
    try:
        path.open("ab").close()
    except OSError as error:
        raise FileFormatError(_unwritable(path, error)) from error


def _unwritable(path: Path, error: OSError) -> str:
    return (
        f"{path} cannot be written: {error.strerror}; free disk space or give another "
        "folder."
    )


def _write_whole(file: FileIO, line: bytes) -> None:
    """Append a line to a file, completely or not at all.

    If the disk is full, `file.write` may write only a part of the line. This part is
    then removed from the file, and `OSError` is raised.
    """
    written = file.write(line)
    if written < len(line):
        file.truncate(file.tell() - written)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_records(path: Path) -> list[Record]:
    """Read all records of a file, oldest first; return [] if the file does not exist.

    Raises:
        FileFormatError: If a line is not JSON.
    """
    if not path.exists():
        return []
    records = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise FileFormatError(
                f"{path}, line {number}: not a JSON record ({error.msg}); fix or "
                "remove that line."
            ) from error
    return records


def _commit() -> str | None:
    """Return the git commit of the source tree; None if there is no git history.

    A suffix "+" says that files have changed since this commit. The environment
    variable GNNAK_COMMIT overrides the result, for copies of the source tree without
    git history.
    """
    if told := os.environ.get("GNNAK_COMMIT"):
        return told
    here = Path(__file__).parent
    if not (here.parents[2] / ".git").exists():
        return None  # installed package: any surrounding repository is another one
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()

"""Records of runs and benchmarks: files of JSON lines that are only appended to."""

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
"""The content of one line: config, results and environment of a run."""


def environment(device: torch.device | str = "cpu") -> Record:
    """Describe the environment of a run: device, versions, commit and time."""
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
    """Round to six significant digits, to make records small."""
    return float(f"{value:.6g}")


def append_record(path: Path, record: Record) -> None:
    """Append a record to a file, as one line.

    A single write call does it, so that the lines of parallel runs do not mix.

    Raises:
        FileFormatError: If the file cannot be written; it is then unchanged.
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
    """Check that records can be appended to a file, before a long run starts.

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
    """Write all bytes or none: `write` on a full disk may write only a part."""
    written = file.write(line)
    if written < len(line):
        file.truncate(file.tell() - written)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_records(path: Path) -> list[Record]:
    """Read all records of a file, oldest first; none if there is no file."""
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
    """Return the commit of the source tree, with a plus if files have changed since.

    The variable GNNAK_COMMIT overrides it, for copies of the source tree without git
    history.
    """
    if told := os.environ.get("GNNAK_COMMIT"):
        return told
    here = Path(__file__).parent
    if not (here.parents[2] / ".git").exists():
        return None  # installed: a repository around it is not this project's
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

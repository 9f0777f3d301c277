"""Records of what was measured: JSON lines, appended, never overwritten."""

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


def environment(device: torch.device | str = "cpu") -> Record:
    """What a figure depends on beside its config: device, versions, commit, time."""
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


def short(value: float) -> float:
    """Six significant digits: enough for any figure, and records stay small."""
    return float(f"{value:.6g}")


def append_record(path: Path, record: Record) -> None:
    """Append one record as one line, in one write: lines of two runs do not mix.

    Raises:
        FileFormatError: If the file cannot be written; it then is as it was.
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
    """Make sure that records can be appended, before hours are spent on one.

    Raises:
        FileFormatError: If not.
    """
    make_folder(path.parent)
    try:
        path.open("ab").close()
    except OSError as error:
        raise FileFormatError(_unwritable(path, error)) from error


def _unwritable(path: Path, error: OSError) -> str:
    return f"{path} cannot be written: {error.strerror}; make room or mend its folder."


def _write_whole(file: FileIO, line: bytes) -> None:
    """Write all or nothing: a disk that fills up takes a part without a word."""
    written = file.write(line)
    if written < len(line):
        file.truncate(file.tell() - written)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_records(path: Path) -> list[Record]:
    """All records of a file, oldest first; none if there is no file."""
    if not path.exists():
        return []
    records = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise FileFormatError(
                f"{path}, line {number}: not a JSON record ({error.msg}); mend or "
                "remove that line."
            ) from error
    return records


def _commit() -> str | None:
    """The commit of the source tree, with a plus if it was changed since.

    A tree without its history, as on a machine it was copied to, may be told its
    commit by the variable GNNAK_COMMIT.
    """
    if told := os.environ.get("GNNAK_COMMIT"):
        return told
    here = Path(__file__).parent
    if not (here.parents[2] / ".git").exists():
        return None  # installed: any history around it is somebody else's
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

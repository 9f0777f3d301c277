"""Records of runs and benchmarks, stored in a file with one line of JSON per record.

Records are only appended; existing lines are never changed.
"""

import errno
import os
import platform
import subprocess
import warnings
from datetime import UTC, datetime
from importlib.metadata import version
from io import FileIO
from pathlib import Path
from tempfile import TemporaryFile

import torch

from gnnak import __version__
from gnnak.errors import DamagedFileWarning, FileFormatError, counted
from gnnak.graphs.readers.files import locked_file, make_folder, read_bytes
from gnnak.training.records.lines import Record as Record
from gnnak.training.records.lines import from_line, to_line, whole_records
from gnnak.training.records.schema import Schema, problem


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
    not mix. If the last line of the file has no line break, because its writer was
    killed, the record begins on a new line.

    Raises:
        FileFormatError: If the file cannot be written; it then stays unchanged.
        ValueError: If the record contains NaN or infinite numbers.
    """
    line = to_line(record)
    make_folder(path.parent)
    try:
        with path.open("a+b", buffering=0) as file, locked_file(file):
            _write_whole(file, line if _ends_with_line_break(file) else b"\n" + line)
            os.fsync(file.fileno())
    except OSError as error:
        raise FileFormatError(_unwritable(path, error)) from error


def check_appendable(path: Path) -> None:
    """Check before a long run that its record can be appended to a file.

    The check creates neither the file nor its folder. If the file does not exist, a
    temporary file is written to the nearest existing parent folder.

    Raises:
        FileFormatError: If the file cannot be written.
    """
    try:
        if path.exists():
            path.open("ab").close()
            return
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        with TemporaryFile(dir=folder):
            pass
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


def _ends_with_line_break(file: FileIO) -> bool:
    """Return whether the last byte of a file is a line break; True if it is empty."""
    if not file.seek(0, os.SEEK_END):
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def read_records(path: Path, schema: Schema | None = None) -> list[Record]:
    """Read all records of a file, oldest first; return [] if the file does not exist.

    Damaged lines and incomplete records are skipped with a `DamagedFileWarning` that
    names the file and the line. Whole records inside a damaged line are read.

    Args:
        path: The file.
        schema: The values that each record must have, in addition to those of its kind
            (see `gnnak.training.records.schema`); None = no further values.

    Raises:
        FileFormatError: If the file cannot be read.
    """
    if not path.exists():
        return []
    records = []
    for number, line in enumerate(read_bytes(path).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            found = [from_line(line)]
        except ValueError as error:
            found = whole_records(line)
            _warn(path, number, str(error), len(found))
        for record in found:
            if wrong := problem(record, schema):
                _warn(path, number, wrong)
            else:
                records.append(record)
    return records


def _warn(path: Path, number: int, wrong: str, whole: int = 0) -> None:
    saved = f", except for {counted(whole, 'whole record')} in it"
    told = f"{path}, line {number} {wrong}; the line is skipped"
    text = f"{told}{saved if whole else ''}."
    warnings.warn(text, DamagedFileWarning, stacklevel=3)


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

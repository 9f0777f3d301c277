"""Records of runs and benchmarks: one line of JSON each, with a checksum."""

import errno
import hashlib
import json
import os
import platform
import subprocess
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from io import FileIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NoReturn

import torch

from gnnak import __version__
from gnnak.datasets.record import Dataset
from gnnak.errors import DamagedFileWarning, FileFormatError, counted
from gnnak.graphs.readers.files import locked_file, make_folder, read_bytes

Record = dict[str, Any]
"""The config, results and environment of a run or benchmark, as JSON values."""
CHECKSUM = "checksum"
"""The first key of every JSON line."""
BEGIN = b'{"checksum": "'
"""The first bytes of every JSON line."""
DIGITS = 16
"""Number of hexadecimal digits of a checksum."""


def to_line(record: Record) -> bytes:
    text = _plain_text(record).encode()
    comma = b", " if record else b""
    return BEGIN + _checksum(text) + b'"' + comma + text[1:] + b"\n"


def from_line(line: bytes) -> Record:
    """Parse a line and verify its checksum; raise `ValueError` if it is damaged."""
    try:
        content = json.loads(line.decode(), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise ValueError("is not UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        raise ValueError("is not valid JSON") from error
    return _checked(content, line)


def whole_records(line: bytes) -> list[Record]:
    """Return the records in a damaged line that have a correct checksum."""
    found = []
    for rest in line.split(BEGIN)[1:]:
        text = (BEGIN + rest).decode(errors="replace")
        try:
            content, _ = json.JSONDecoder(parse_constant=_refuse).raw_decode(text)
            found.append(_checked(content))
        except (ValueError, RecursionError):
            continue
    return found


def _checked(content: Any, line: bytes = b"") -> Record:
    """Remove the checksum of a parsed record; raise `ValueError` if it is wrong."""
    if not isinstance(content, dict):
        raise ValueError("is not a JSON object")
    told = content.pop(CHECKSUM, None)
    if told is None:
        # The key of the checksum, the first one, may be damaged: remove it then.
        first = next(iter(content), "")
        others = {key: value for key, value in content.items() if key != first}
        expected = _checksum(_plain_text(others).encode()).decode()
        return others if content.get(first) == expected else content
    begin = len(BEGIN) + DIGITS + len(b'", ')
    if told == _checksum(b"{" + line.strip()[begin:]).decode():
        return content
    if told != _checksum(_plain_text(content).encode()).decode():
        raise ValueError("has a wrong checksum, so a value in it has changed")
    return content


def _plain_text(record: Record) -> str:
    return json.dumps(record, sort_keys=True, allow_nan=False)


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:DIGITS].encode()


def _refuse(constant: str) -> NoReturn:
    """Refuse `NaN` and `Infinity`, which Python reads but JSON does not allow."""
    raise ValueError(f"{constant} is not a JSON value")


def environment(device: torch.device | str = "cpu") -> Record:
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
    """Append a record as one line of JSON, unless its `key` is already in the file."""
    line = to_line(record)
    make_folder(path.parent)
    try:
        with path.open("a+b", buffering=0) as file, locked_file(file):
            file.seek(0)
            content = file.readall()
            if "key" in record and _has_key(content, record["key"]):
                return
            # A killed process may have left the last line without a line break.
            is_whole = not content or content.endswith(b"\n")
            _write_whole(file, line if is_whole else b"\n" + line)
            os.fsync(file.fileno())
    except OSError as error:
        raise FileFormatError(_unwritable(path, error)) from error


def _has_key(content: bytes, key: str) -> bool:
    lines = (each for each in content.split(b"\n") if key.encode() in each)
    return any(
        found.get("key") == key for each in lines for found in whole_records(each)
    )


def check_appendable(path: Path) -> None:
    """Raise an error if no record can be appended to a file; create nothing."""
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
    written = file.write(line)
    if written < len(line):
        file.truncate(file.tell() - written)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


EPOCH = "config device fast graphs_per_second peak_memory_mb seconds"
RUN = (
    "config hash cell seed protocol metric lower_is_better scores best_epoch epochs "
    "curves seconds peak_memory_mb"
)
REQUIRED = {
    "run": RUN.split(),
    "bench": EPOCH.split(),
    "growth": [*EPOCH.split(), "what", "value"],
    "dataset": ["name", "graphs", "nodes", "edges", "outputs"],
}
"""The keys that records of each kind must have, so that tables can show them."""


def read_records(path: Path, needed: Iterable[str] = ()) -> list[Record]:
    """Read records, oldest first; skip damaged or incomplete lines with a warning."""
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
            keys = [*needed, *REQUIRED.get(str(record.get("kind")), ())]
            lacking = next((key for key in keys if key not in record), None)
            if lacking is None:
                records.append(record)
            else:
                _warn(path, number, f"lacks {lacking}")
    return records


def _warn(path: Path, number: int, wrong: str, whole: int = 0) -> None:
    saved = f", except for {counted(whole, 'whole record')} in it"
    told = f"{path}, line {number} {wrong}; the line is skipped"
    text = f"{told}{saved if whole else ''}."
    warnings.warn(text, DamagedFileWarning, stacklevel=3)


def _commit() -> str | None:
    """Return $GNNAK_COMMIT or the git commit. A "+" marks changes of tracked files."""
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


CHUNK = 1 << 24
"""Number of bytes that are hashed at a time; chunks are hashed in parallel."""


def fingerprint(dataset: Dataset) -> str:
    """Return a hash of the graphs, targets, split and folds of a data set."""
    names = ("num_nodes", "num_edges", "edge_index", "x", "edge_attr", "y")
    tensors = {name: getattr(dataset.store, name) for name in names}
    tensors |= {"split": dataset.split, "folds": dataset.folds}
    whole = hashlib.sha256()
    with ThreadPoolExecutor() as threads:
        for name, tensor in tensors.items():
            if tensor is not None:
                whole.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
                flat = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
                chunks = (chunk.numpy() for chunk in flat.split(CHUNK))
                for part in threads.map(hashlib.sha256, chunks):
                    whole.update(part.digest())
    return whole.hexdigest()[:16]

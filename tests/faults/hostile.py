"""Give hostile files to the command line: one line of error, and bounded memory."""

import io
import os
import pickle
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch

from tests.cli.hostile_files import saved
from tests.faults import Tally
from tests.training.config.test_options import alias_bomb

MEMORY = 6 << 30
"""Limit of the virtual memory of the program, in bytes."""


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        """Say what to call when this object is unpickled."""
        return os.system, (f"touch {self.path}",)


def hostile_files(folder: Path) -> Tally:
    """Run the program on each hostile file, in a process with a memory limit."""
    tally, executed = Tally(), folder / "executed"
    for name, arguments in _cases(folder, executed).items():
        done = subprocess.run(
            [sys.executable, "-m", "gnnak.cli", *arguments],
            cwd=folder,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            preexec_fn=_limit_memory,
        )
        errors = done.stderr.strip().splitlines()
        clear = done.returncode == 2 and len(errors) == 1
        safe = clear and errors[0].startswith("error: ") and not executed.exists()
        text = f"{name}: code {done.returncode}, {done.stderr[-300:]}"
        tally.add("survived" if safe else "wrong", text)
        executed.unlink(missing_ok=True)
    return tally


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _cases(folder: Path, executed: Path) -> dict[str, list[str]]:
    """Write the files; return the arguments of the program by name of the case."""
    texts = {
        "nested": "[" * 50_000,
        "aliases": alias_bomb(12),
        "infinite": "train: {learning_rate: .inf}",
        "twice": "train: {epochs: 1, epochs: 2}",
        "python": "!!python/object/apply:os.system [ls]",
        "binary": "\x00\x01\x02",
        "bool": "train: !!bool maybe",
        "timestamp": "train: !!timestamp foo",
        "integer": "train: !!int ''",
        "sexagesimal": "train: " + "1:" * 400 + "1.0",
    }
    cases = {}
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
        cases[f"{name}.yaml"] = ["train", f"{name}.yaml"]
    for name, content in _checkpoints(executed).items():
        (folder / f"{name}.ckpt").write_bytes(content)
        cases[f"{name}.ckpt"] = ["evaluate", f"{name}.ckpt"]
    for name, content in _archives(executed).items():
        place = folder / name
        place.mkdir()
        (place / "zinc12k.npz").write_bytes(content)
        cases[f"{name}/zinc12k.npz"] = ["train", "zinc", "--data-dir", str(place)]
    for name, content in {"noise": os.urandom(2000), "long": b"~" * 5_000_000}.items():
        (folder / f"{name}.g6").write_bytes(content)
        cases[f"{name}.g6"] = ["wl", "compare", f"{name}.g6"]
    return cases


def _checkpoints(executed: Path) -> dict[str, bytes]:
    buffer = io.BytesIO()
    torch.save({"format": "gnnak checkpoint", "weights": Bomb(executed)}, buffer)
    empty = io.BytesIO()
    torch.save({}, empty)
    return {
        "pickle": pickle.dumps(Bomb(executed)),
        "zipped-pickle": buffer.getvalue(),
        "no-content": empty.getvalue(),
        "empty": b"",
    }


def _archives(executed: Path) -> dict[str, bytes]:
    graphs = {
        "num_nodes": np.full(30, 3),
        "num_edges": np.full(30, 2),
        "edge_index": np.tile([[0, 1], [1, 2]], 30),
        "x": np.zeros((90, 1), dtype=np.int64),
        "edge_attr": np.zeros((60, 1), dtype=np.int64),
        "y": np.zeros(30, dtype=np.float32),
        "split": np.arange(30) % 3,
    }
    changes = {
        "no-x": {"x": None},
        "nan": {"x": np.full((90, 1), np.nan)},
        "huge-category": {"x": np.full((90, 1), 10**9)},
        "nan-target": {"y": np.full(30, np.nan, dtype=np.float32)},
        "no-graphs": {key: value[:0] for key, value in graphs.items()},
        "outside": {"edge_index": np.full((2, 60), 99)},
        "objects": {"x": np.array([[Bomb(executed)]] * 90, dtype=object)},
    }
    files = {}
    for name, change in changes.items():
        arrays = {key: a for key, a in (graphs | change).items() if a is not None}
        files[name] = saved(**arrays)
    return files | {"bomb": _bomb(), "not-a-zip": b"PK\x03\x04" + bytes(50)}


def _bomb() -> bytes:
    """Return an npz file of 2 MB whose array of zeros needs 2 GB."""
    bomb, numbers = io.BytesIO(), 250_000_000
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({numbers},), }}"
    head = head.ljust(117) + "\n"
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w") as member,
    ):
        size = len(head).to_bytes(2, "little")
        member.write(b"\x93NUMPY\x01\x00" + size + head.encode())
        for _ in range(numbers // 1_000_000):
            member.write(bytes(8_000_000))
    return bomb.getvalue()

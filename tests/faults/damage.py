"""Flip bits of files, and cut files off: every change is noticed or harmless."""

import hashlib
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from gnnak.graphs.readers.npz import GraphFile, read_npz, write_npz
from gnnak.training import callbacks as callbacks_module
from gnnak.training.processes.machine import Machine
from gnnak.training.records.checkpoint import load_checkpoint, read_tensors
from gnnak.training.records.results import append_record, fingerprint, read_records
from gnnak.training.run import last_checkpoint, run
from tests.faults import Tally
from tests.report.hand_records import run_record
from tests.training.small import edge_counts, small_config

RECORDS = 20
"""Number of records in the damaged file of records."""


def flipped(content: bytes, tries: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield copies of a file in which one bit is changed, each with a description."""
    chance = random.Random(seed)
    for _ in range(tries):
        place, bit = chance.randrange(len(content)), chance.randrange(8)
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        yield f"bit {bit} of byte {place}", bytes(damaged)


def cut(content: bytes, tries: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield copies of a file that end too early, each with a description."""
    chance = random.Random(seed)
    for _ in range(tries):
        end = chance.randrange(len(content))
        yield f"first {end} bytes", content[:end]


def checkpoints(folder: Path, change: Callable, tries: int) -> Tally:
    """Damage `best.ckpt` and `last.ckpt` of a small run."""
    tally, best, last = Tally(), folder / "best.ckpt", folder / "last.ckpt"
    saved, callbacks_module.SAVE_SECONDS = callbacks_module.SAVE_SECONDS, 0.0
    try:
        run(small_config(), edge_counts(), folder, Machine("cpu"))
    finally:
        callbacks_module.SAVE_SECONDS = saved
    data_hash = fingerprint(edge_counts())
    readers: dict[Path, Callable[[], Any]] = {
        best: lambda: hash_of(load_checkpoint(best).weights),
        last: lambda: _last(folder, data_hash),
    }
    for number, (path, read) in enumerate(readers.items()):
        content, expected = path.read_bytes(), read()
        for what, damaged in change(content, tries, number):
            path.write_bytes(damaged)
            tally.read(read, expected, f"{path.name}, {what}")
        path.write_bytes(content)
    return tally


def _last(folder: Path, data_hash: str) -> str:
    """Read `last.ckpt` as a resumed run does; return a hash of its whole content."""
    path = last_checkpoint(folder, True, "edges", data_hash)
    assert path is not None
    return hashlib.sha256(str(_plain(read_tensors(path))).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Replace the tensors in nested dicts and lists by lists of numbers."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value


def npz_files(folder: Path, change: Callable, tries: int) -> Tally:
    """Damage a file of graphs."""
    tally, path = Tally(), folder / "graphs.npz"
    data = edge_counts()
    write_npz(path, GraphFile(data.store, data.split))
    content, expected = path.read_bytes(), _graphs(path)
    for what, damaged in change(content, tries, 2):
        path.write_bytes(damaged)
        tally.read(lambda: _graphs(path), expected, f"graphs.npz, {what}")
    return tally


def record_files(folder: Path, change: Callable, tries: int) -> Tally:
    """Damage a file of records; append another record; all good records are read."""
    tally, path = Tally(), folder / "runs.jsonl"
    written = [run_record(small_config(), seed) for seed in range(RECORDS)]
    for record in written:
        append_record(path, record)
    content = path.read_bytes()
    for what, damaged in change(content, tries, 3):
        path.write_bytes(damaged)
        added = run_record(small_config(), RECORDS)
        append_record(path, added)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = read_records(path)
        whole = damaged.count(b"\n") if change is cut else RECORDS - 1
        good = [record for record in found if record in written]
        if len(good) < whole or added not in found:
            tally.add("lost", f"runs.jsonl, {what}: {len(good)} of {whole}")
        elif len(found) > len(good) + 1:
            tally.add("wrong", f"runs.jsonl, {what}: a changed record was read")
        else:
            tally.add("survived")
    return tally


def _graphs(path: Path) -> str:
    file = read_npz(path)
    store = file.store
    tensors = {
        "nodes": store.num_nodes,
        "edges": store.edge_index,
        "x": store.x,
        "y": store.y,
        "split": file.split,
    }
    return hash_of({key: value for key, value in tensors.items() if value is not None})


def hash_of(tensors: Any) -> str:
    """Return a hash of named tensors."""
    whole = hashlib.sha256()
    for name, tensor in tensors.items():
        whole.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        whole.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()

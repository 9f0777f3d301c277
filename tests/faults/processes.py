"""Kill runs at random moments, fill the disk, and let many processes write at once."""

import json
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from gnnak.errors import GnnakError
from gnnak.training import launch
from gnnak.training.config.run_config import RunConfig
from gnnak.training.launch import Places, run_experiment
from gnnak.training.processes.locks import InUseError
from gnnak.training.processes.machine import Machine
from gnnak.training.records.checkpoint import load_checkpoint
from gnnak.training.records.results import Record, append_record, read_records
from gnnak.training.run import run
from tests.faults import Outcome, Tally
from tests.faults.damage import hash_of
from tests.training.small import edge_counts, small_config

OPTIONS = {
    "model.name": "gin-ak+-s",
    "model.dropout": 0.2,
    "train.epochs": 30,
    "train.batch_size": 4,
}
"""A short run with every source of randomness: dropout, SubgraphDrop, shuffling."""
ENDS = {
    signal.SIGKILL: -signal.SIGKILL,
    signal.SIGINT: -signal.SIGINT,
    signal.SIGTERM: 1,
}
"""The exit code of a Python program that gets a signal in a run."""
WRITERS = 8
"""Number of processes that append records at the same time."""


def kills(folder: Path, tries: int, *signals: signal.Signals) -> Tally:
    """Send signals to runs at random moments and resume: all results stay the same.

    A run that is stopped, and not killed, has to write a checkpoint before it ends.
    """
    _program(folder / "whole", "new").wait()
    whole = _result(folder / "whole")
    chance, tally = random.Random(0), Tally()
    moments = [chance.uniform(0.0, 1.0) for _ in range(tries)]
    with ThreadPoolExecutor(2) as threads:
        tried = partial(_killed_run, folder, whole)
        sent = [signals[number % len(signals)] for number in range(tries)]
        for outcome, text in threads.map(tried, range(tries), moments, sent):
            tally.add(outcome, text)
    return tally


def _killed_run(
    root: Path, whole: dict, number: int, moment: float, sent: signal.Signals
) -> tuple[Outcome, str]:
    folder = root / f"killed-{number}"
    last = folder / "last.ckpt"
    process = _program(folder, "new")
    while process.poll() is None and not last.exists():
        time.sleep(0.01)
    time.sleep(moment)
    now = time.time()
    process.send_signal(sent)
    _, errors = process.communicate()
    text = f"{sent.name} {moment:.2f} s after the first epoch: {errors.decode()[-300:]}"
    if process.returncode not in (0, ENDS[sent]):
        return "wrong", text
    if sent != signal.SIGKILL and process.returncode and last.stat().st_mtime < now:
        return "lost", f"no checkpoint was written, {text}"
    resumed = _program(folder, "resume")
    _, errors = resumed.communicate()
    if resumed.returncode:
        return "lost", f"{text}, resumed: {errors.decode()[-300:]}"
    return ("survived" if _result(folder) == whole else "wrong"), text


def _program(folder: Path, resume: str) -> subprocess.Popen:
    module = [sys.executable, "-m", "tests.training.small"]
    return subprocess.Popen(
        [*module, str(folder), "1", resume, json.dumps(OPTIONS)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def _result(folder: Path) -> dict:
    record = json.loads((folder / "record.json").read_text())
    found = {key: record[key] for key in ("curves", "scores", "best_epoch")}
    return found | {"weights": hash_of(load_checkpoint(folder / "best.ckpt").weights)}


def kills_at_record(folder: Path, tries: int) -> Tally:
    """Kill runs right before or after their record is written, and resume each twice.

    The two processes that resume it run at the same time. Each run is recorded once.
    """
    tally, launch.load_dataset = Tally(), lambda *_, **__: edge_counts()
    for number in range(tries):
        places = Places(None, folder / f"runs-{number}", folder / f"results-{number}")
        config = small_config(train__seed=number)
        _in_child(partial(_run_and_die, config, places, number % 2 == 0))
        context = multiprocessing.get_context("fork")
        resume = partial(_resume, config, places)
        both = [context.Process(target=resume) for _ in range(2)]
        for process in both:
            process.start()
        for process in both:
            process.join(120)
        codes = sorted(process.exitcode or 0 for process in both)
        count, left = (
            len(read_records(places.records)),
            list(places.runs.glob("*/last*")),
        )
        text = f"run {number}: {count} records, exit codes {codes}, left {left}"
        right = codes in ([0, 0], [0, 3]) and not left
        tally.add(
            "lost" if not count else "survived" if right and count == 1 else "wrong",
            text,
        )
    return tally


def _run_and_die(config: RunConfig, places: Places, recorded: bool) -> None:
    append = launch.append_record

    def die(path: Path, record: Record) -> None:
        if recorded:
            append(path, record)
        os.kill(os.getpid(), signal.SIGKILL)

    launch.append_record = die
    run_experiment([config], "edges", places, Machine("cpu"))


def _resume(config: RunConfig, places: Places) -> None:
    try:
        run_experiment([config], "edges", places, Machine("cpu"), resume=True)
    except InUseError:
        os._exit(3)
    os._exit(0)


def full_disk(folder: Path, tries: int) -> Tally:
    """Let writes fail after some bytes, in a process with a limit on file sizes.

    The run, or the append of its record, ends with one sentence. Nothing that was
    complete before is lost.
    """
    tally, path = Tally(), folder / "runs.jsonl"
    append_record(path, {"kind": "other", "text": "x" * 4000})
    before = path.read_bytes()
    for number in range(tries):
        limit = random.Random(number).randrange(len(before), 3 * len(before))
        path.write_bytes(before)
        code = _in_child(partial(_append_and_run, folder, path, limit))
        intact = read_records(path)[:1] == [{"kind": "other", "text": "x" * 4000}]
        if not intact:
            tally.add("lost", f"limit of {limit} bytes")
        else:
            ok = code == 0
            tally.add("survived" if ok else "wrong", f"limit {limit}: code {code}")
    return tally


def _append_and_run(folder: Path, path: Path, limit: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    for action in (
        lambda: append_record(path, {"kind": "other", "text": "y" * 8000}),
        lambda: run(small_config(), edge_counts(), folder / "run", Machine("cpu")),
    ):
        try:
            action()
        except GnnakError as error:
            if "\n" in str(error):
                os._exit(3)
        except Exception:
            os._exit(4)
    os._exit(0)


def _in_child(action: Callable[[], None]) -> int | None:
    process = multiprocessing.get_context("fork").Process(target=action)
    process.start()
    process.join(120)
    return process.exitcode


def writers(folder: Path, tries: int) -> Tally:
    """Append records from several processes at once: every record is there, whole."""
    tally, path = Tally(), folder / "runs.jsonl"
    each = tries // WRITERS
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(target=_append_many, args=(path, number, each))
        for number in range(WRITERS)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = {(record["writer"], record["number"]) for record in read_records(path)}
    for writer in range(WRITERS):
        for number in range(each):
            there = (writer, number) in found
            tally.add("survived" if there else "lost", f"record {writer}, {number}")
    return tally


def _append_many(path: Path, writer: int, count: int) -> None:
    for number in range(count):
        record = {"kind": "other", "writer": writer, "number": number, "x": "x" * 5000}
        append_record(path, record)

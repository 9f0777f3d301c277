"""Try all faults, print a table, and exit with 1 if something was lost or wrong.

Run `make faults`, or one kind: `python -m tests.faults kills`.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM

import torch
from rich.console import Console
from rich.table import Table

from gnnak.training.records.results import append_record, environment
from tests.faults import Tally, damage, hostile, processes, threads

FAULTS: dict[str, Callable[[Path], Tally]] = {
    "kills": lambda path: processes.kills(path, 20, SIGKILL),
    "kills-at-record": partial(processes.kills_at_record, tries=20),
    "stops": lambda path: processes.kills(path, 20, SIGINT, SIGTERM),
    "flips-checkpoint": lambda path: damage.checkpoints(path, damage.flipped, 500),
    "flips-npz": lambda path: damage.npz_files(path, damage.flipped, 500),
    "flips-records": lambda path: damage.record_files(path, damage.flipped, 500),
    "cuts-checkpoint": lambda path: damage.checkpoints(path, damage.cut, 100),
    "cuts-npz": lambda path: damage.npz_files(path, damage.cut, 100),
    "cuts-records": lambda path: damage.record_files(path, damage.cut, 100),
    "full-disk": partial(processes.full_disk, tries=20),
    "writers": partial(processes.writers, tries=800),
    "threads": lambda _: threads.calls(10_000),
    "hostile-files": hostile.hostile_files,
}
"""The function that tries each kind of fault, in an empty folder."""


def main() -> int:
    """Try the kinds of faults that are named on the command line, or all."""
    parser = argparse.ArgumentParser("tests.faults", description=__doc__)
    parser.add_argument("kind", nargs="*", help=f"{', '.join(FAULTS)}; default: all")
    chosen = parser.parse_args().kind or list(FAULTS)
    if unknown := [name for name in chosen if name not in FAULTS]:
        parser.error(f"unknown fault {unknown[0]}; choose from {', '.join(FAULTS)}")
    torch.set_num_threads(1)
    # A shell lets background jobs ignore SIGINT, and the programs started here, too.
    signal.signal(SIGINT, signal.default_int_handler)
    console = Console()
    table = Table("fault", "tried", "survived", "lost", "wrong", "seconds")
    counts, bad = {}, []
    for name in chosen:
        began = time.monotonic()
        with console.status(name), tempfile.TemporaryDirectory() as folder:
            tally = FAULTS[name](Path(folder))
        seconds = time.monotonic() - began
        found = [tally.counts[key] for key in ("survived", "lost", "wrong")]
        table.add_row(name, *map(str, [tally.tried, *found, round(seconds)]))
        counts[name] = {"tried": tally.tried, "survived": found[0]}
        counts[name] |= {"lost": found[1], "wrong": found[2]}
        bad += [f"{name}: {text}" for text in tally.bad]
    console.print(table)
    for line in bad:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if chosen == list(FAULTS):
        record = {"kind": "faults", "counts": counts} | environment()
        append_record(Path("results/faults.jsonl"), record)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

"""The work of `gnnak wl brec`: choose tests, count pairs of BREC, build the table."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gnnak.brec.ceiling import BREC_CONTENDERS, COSTLY, BrecCount, run_brec
from gnnak.brec.data import Pair
from gnnak.cli.choices import WL_TESTS
from gnnak.cli.wl.run import options_by_test
from gnnak.training.records.results import (
    Record,
    append_record,
    environment,
    six_digits,
)
from gnnak.wl.lab import Contender
from gnnak.wl.options import check_test


def choose_contenders(
    tests: Sequence[str], options: dict[str, object]
) -> list[Contender]:
    """Return the Weisfeiler-Leman (WL) tests, with options, that the command runs.

    Args:
        tests: Names of tests from the command line; empty = all tests except `COSTLY`.
        options: Options of tests from the command line. If there are none, each test
            runs with the options of all its entries in `BREC_CONTENDERS`.
    """
    for test in tests:
        check_test(test)
    tests = tests or [test for test in WL_TESTS if test not in COSTLY]
    if not options:
        return [c for c in BREC_CONTENDERS if c.test in tests]
    by_test = options_by_test(tests, options)
    return [Contender(test, chosen) for test, chosen in by_test.items()]


def count(
    groups: Mapping[str, Sequence[Pair]],
    contenders: Sequence[Contender],
    max_memory: float,
    path: Path | None,
) -> list[Record]:
    """Count the distinguished pairs with a progress bar; return a record per test.

    Args:
        groups: The pairs of each group.
        contenders: The tests with their options.
        max_memory: Memory limit in GiB of a test.
        path: File to which each record is appended as soon as it is done; None =
            records are not stored.
    """
    columns = (TextColumn("{task.description:44}"), BarColumn(), TimeElapsedColumn())
    total = len(contenders) * sum(len(pairs) for pairs in groups.values())
    records = []
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        for contender in contenders:
            progress.update(task, description=contender.label[:44])
            counts = run_brec(
                groups,
                [contender],
                max_memory,
                lambda pairs: progress.advance(task, pairs),
            )
            records.append(_record(contender, list(counts)))
            if path is not None:
                append_record(path, records[-1])
    return records


def _record(contender: Contender, counts: list[BrecCount]) -> Record:
    """Return the record of one test: a JSON object with its counts in all groups."""
    shown = ("pairs", "apart", "missed", "not_run", "seconds")
    groups = {}
    for each in counts:
        fields = asdict(each) | {"seconds": six_digits(each.seconds)}
        groups[each.group] = {name: fields[name] for name in shown}
    return {
        "kind": "wl-brec",
        "contender": contender.label,
        "test": contender.test,
        "options": dict(contender.options),
        "groups": groups,
        "pairs": sum(each.pairs for each in counts),
        "apart": sum(each.apart for each in counts),
        "not_run": sum(len(each.not_run) for each in counts),
        "seconds": six_digits(sum(each.seconds for each in counts)),
        "note": next((each.note for each in counts if each.note), ""),
    } | environment()


def table(records: Sequence[Record]) -> Table:
    """Return a table with one row per test and one column per group.

    A cell is the number of distinguished pairs. A `+` after the number means that the
    test was not run on all pairs, because some graphs are too large.
    """
    built = Table("test", title="Pairs of BREC that each test distinguishes")
    groups = records[0]["groups"] if records else {}
    for name, found in groups.items():
        built.add_column(f"{name} ({found['pairs']})", justify="right")
    built.add_column("all", justify="right")
    built.add_column("seconds", justify="right")
    for record in records:
        cells = [
            _cell(f["apart"], len(f["not_run"])) for f in record["groups"].values()
        ]
        whole = _cell(record["apart"], record["not_run"])
        built.add_row(record["contender"], *cells, whole, f"{record['seconds']:.1f}")
    return built


def _cell(apart: int, not_run: int) -> str:
    return f"{apart}+" if not_run else str(apart)

"""The ceiling of `gnnak brec`: the exact count of a Weisfeiler-Leman (WL) test.

The test bounds the network: it distinguishes all pairs of graphs that the network can
distinguish.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gnnak.brec.ceiling import run_brec
from gnnak.brec.data import Pair
from gnnak.brec.trial import TrialOptions
from gnnak.training.records.results import Record, read_records
from gnnak.wl.bounds import Bound, find_bound
from gnnak.wl.lab import Contender
from gnnak.wl.options import read_options

WORDS = {
    "whole": "whole graphs",
    "deletion": "graphs without the edges of the root",
    "masked-egonets": "whole graphs with only the edges of an egonet",
}
"""Kinds of rooted subgraphs, other than egonets, in words."""


def ceiling_of(options: TrialOptions) -> Bound | None:
    """Return the WL test that bounds a network; None if no such test is known."""
    marked = options.pairs is None or len(options.pairs) > 0
    return find_bound(options.model, options.num_hops, marked, options.subgraphs)


def no_ceiling(options: TrialOptions) -> str:
    """Return a sentence that says that no WL test is known to bound a network."""
    where = "" if options.subgraphs == "egonets" else f" on {WORDS[options.subgraphs]}"
    return f"No ceiling: no WL test is known that bounds {options.model}{where}."


def count_ceiling(
    groups: Mapping[str, Sequence[Pair]], bound: Bound, records: Path
) -> Record:
    """Count the pairs that the WL test that bounds a network distinguishes.

    Args:
        groups: The pairs of each group.
        bound: The test.
        records: File with records of `gnnak wl brec`. Counts of groups that are not in
            this file are computed, which can take minutes.

    Returns:
        The test, its count in each group, and the number of pairs that the test was not
        run on, in each group and in all.
    """
    counts = {
        group: found
        for group, found in _recorded(bound, records).items()
        if group in groups
    }
    missing = {name: pairs for name, pairs in groups.items() if name not in counts}
    contender = Contender(bound.test, bound.options)
    columns = (TextColumn("{task.description:32}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        total = sum(len(pairs) for pairs in missing.values())
        task = bar.add_task("ceiling", total=total)
        rows = run_brec(missing, [contender], progress=lambda n: bar.advance(task, n))
        counts |= {row.group: (row.apart, len(row.not_run)) for row in rows}
    return {
        "test": contender.label,
        "apart": {group: counts[group][0] for group in groups},
        "not_run": sum(counts[group][1] for group in groups),
        "not_run_by_group": {group: counts[group][1] for group in groups},
    }


def ceiling_range(apart: int, not_run: int) -> str:
    """Return a ceiling as text; a range if the test was not run on some pairs.

    Args:
        apart: Number of pairs that the test distinguishes.
        not_run: Number of pairs that the test was not run on.

    >>> ceiling_range(17, 0), ceiling_range(0, 20)
    ('17', '0 to 20')
    """
    return f"{apart} to {apart + not_run}" if not_run else str(apart)


def _recorded(bound: Bound, path: Path) -> dict[str, tuple[int, int]]:
    """Return the recorded counts of a test: distinguished pairs, and pairs not run."""
    wanted = read_options(bound.test, **bound.options)
    counts = {}
    for record in read_records(path):
        if record["test"] != bound.test:
            continue
        if read_options(bound.test, **record["options"]) == wanted:
            for group, found in record["groups"].items():
                counts[group] = (found["apart"], len(found["not_run"]))
    return counts

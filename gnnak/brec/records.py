"""Count the pairs of BREC that WL tests distinguish, and build the JSON records.

The *ceiling* of a network is the count of a WL (Weisfeiler-Leman) test that is at least
as expressive as the network.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import torch

from gnnak.brec import run
from gnnak.brec.data import Pair
from gnnak.brec.trial import TrialOptions
from gnnak.errors import GraphError, OptionError
from gnnak.models.bases import is_own_name
from gnnak.models.factory import parse_name
from gnnak.subgraphs.encodings import structural_encodings
from gnnak.training.records.results import Record, environment, read_records, six_digits
from gnnak.wl.bounds import Contender, find_bound
from gnnak.wl.compare import estimated_bytes, run_test
from gnnak.wl.inputs import read_union
from gnnak.wl.lab import LAB_CONTENDERS
from gnnak.wl.options import Options, read_options

CHUNK_BYTES = 1 << 23
"""Largest estimated memory, in bytes, of the pairs that are tested together."""

_MARKED = tuple(
    Contender(test, {"num_hops": num_hops, **readout})
    for num_hops in (1, 2, 3, 6)
    for test, readout in (
        ("swl", {}),
        ("swl", {"readout": "sv"}),
        ("pswl", {}),
        ("pswl", {"readout": "sv"}),
        ("gswl", {}),
        ("sswl", {}),
    )
)
_UNMARKED = tuple(
    Contender("swl", {"num_hops": num_hops, "root_mark": False})
    for num_hops in (1, 2, 3)
)
BREC_CONTENDERS = (*LAB_CONTENDERS, *_MARKED, *_UNMARKED)
"""The WL tests that `gnnak wl brec` runs by default, apart from those in `COSTLY`."""
COSTLY = ("3-wl", "3-fwl", "subgraph-1-wl")
"""Tests that take hours or too much memory; they run only if the user names them."""


@dataclass(frozen=True)
class BrecCount:
    """The result of a WL test on one group of pairs of BREC."""

    contender: str
    group: str
    pairs: int
    apart: int
    """Number of pairs that the test distinguishes."""
    missed: tuple[int, ...]
    """Indices, within the group, of the pairs that the test does not distinguish."""
    not_run: tuple[int, ...]
    """Indices of the pairs that were not tested, because they need too much memory."""
    seconds: float
    note: str = ""


def run_brec(
    groups: Mapping[str, Sequence[Pair]],
    contenders: Iterable[Contender],
    max_memory: float = 2.0,
    progress: Callable[[int], None] = lambda pairs: None,
) -> Iterator[BrecCount]:
    """Run each WL test on each group; yield one `BrecCount` per test and group."""
    for contender in contenders:
        chosen = {"max_memory": max_memory, **contender.options}
        options = read_options(contender.test, **chosen)
        for name, pairs in groups.items():
            start = perf_counter()
            found, note = _distinguished(contender.test, pairs, options, progress)
            yield BrecCount(
                contender.label,
                name,
                len(pairs),
                found.count(True),
                tuple(index for index, apart in enumerate(found) if apart is False),
                tuple(index for index, apart in enumerate(found) if apart is None),
                perf_counter() - start,
                note,
            )


def _distinguished(
    test: str, pairs: Sequence[Pair], options: Options, progress: Callable[[int], None]
) -> tuple[list[bool | None], str]:
    """Return a bool for each pair (None if its test failed), and the error message."""
    found: list[bool | None] = []
    note = ""
    for chunk in _chunks(test, pairs, options):
        try:
            found += _apart(test, chunk, options)
        except GraphError as error:
            note = str(error)
            if len(chunk) > 1:
                for pair in chunk:
                    found += _distinguished(test, [pair], options, progress)[0]
                continue
            found.append(None)
        progress(len(chunk))
    return found, note if None in found else ""


def _chunks(
    test: str, pairs: Sequence[Pair], options: Options
) -> Iterator[Sequence[Pair]]:
    """Split a list of pairs into parts that need at most about `CHUNK_BYTES` each."""
    begin = size = 0
    for index, pair in enumerate(pairs):
        needed = estimated_bytes(test, read_union(pair), options)
        if index > begin and size + needed > CHUNK_BYTES:
            yield pairs[begin:index]
            begin, size = index, 0
        size += needed
    if pairs:
        yield pairs[begin:]


def _apart(test: str, pairs: Sequence[Pair], options: Options) -> list[bool | None]:
    union = read_union([graph for pair in pairs for graph in pair], options.labels)
    for coloring in run_test(test, union, options):
        marks = coloring.fingerprints(union.num_graphs)
        apart = marks[::2] != marks[1::2]
        if bool(apart.all()):  # pairs stay distinguished: rounds only split colours
            break
    return list(apart.tolist())


WORDS = {
    "whole": "whole graphs",
    "deletion": "graphs without the edges of the root",
    "masked-egonets": "whole graphs with only the edges of an egonet",
}
"""Descriptions, for messages, of the kinds of rooted subgraphs other than egonets."""


def ceiling_of(options: TrialOptions) -> Contender | None:
    """Return a WL test at least as expressive as the network; None if none is known."""
    if structural_encodings(options.pairs or ()):
        return None
    marked = options.pairs is None or len(options.pairs) > 0
    return find_bound(options.model, options.num_hops, marked, options.subgraphs)


def no_ceiling(options: TrialOptions) -> str:
    where = "" if options.subgraphs == "egonets" else f" on {WORDS[options.subgraphs]}"
    if structural := structural_encodings(options.pairs or ()):
        where += f" with the encodings {', '.join(e.name for e in structural)}"
    return f"No ceiling: no WL test is known that bounds {options.model}{where}."


def count_ceiling(
    groups: Mapping[str, Sequence[Pair]],
    bound: Contender,
    records: Path,
    progress: Callable[[int], None],
) -> Record:
    """Count pairs that a WL test distinguishes; reuse counts in the file `records`."""
    counts = recorded_counts(bound, records)
    missing = {name: pairs for name, pairs in groups.items() if name not in counts}
    rows = run_brec(missing, [bound], progress=progress)
    counts |= {row.group: (row.apart, len(row.not_run)) for row in rows}
    return {
        "test": bound.label,
        "apart": {group: counts[group][0] for group in groups},
        "not_run": sum(counts[group][1] for group in groups),
        "not_run_by_group": {group: counts[group][1] for group in groups},
    }


def ceiling_range(apart: int, not_run: int) -> str:
    """Format a count of pairs; if some pairs were not tested, the text is a range.

    >>> ceiling_range(17, 0), ceiling_range(0, 20)
    ('17', '0 to 20')
    """
    return f"{apart} to {apart + not_run}" if not_run else str(apart)


def recorded_counts(bound: Contender, path: Path) -> dict[str, tuple[int, int]]:
    """Return the stored numbers of distinguished and of untested pairs, by group."""
    wanted = bound.read()
    counts = {}
    for record in read_records(path):
        if record["test"] != bound.test:
            continue
        if read_options(bound.test, **record["options"]) == wanted:
            for group, found in record["groups"].items():
                counts[group] = (found["apart"], len(found["not_run"]))
    return counts


def check_network(options: TrialOptions, jobs: int) -> None:
    """Raise an error if this process or a worker process cannot build the network."""
    with torch.random.fork_rng(devices=[]):
        options.build_network(degrees=(0, 1))
    base = parse_name(options.model).base
    if jobs > 1 and is_own_name(base):
        told = f"--jobs is {jobs}, but processes do not import your class {base}"
        raise OptionError(f"{told}; use --jobs 1.")


def network_record(
    trials: run.Trials,
    ceiling: Record | None,
    remarks: Sequence[str],
    notify: Callable[[str, int], None],
) -> Record:
    """Train on the pairs without a stored result; return the record of all pairs."""
    resumed = len(trials.pairs().keys() & trials.progress.finished().keys())
    started = perf_counter()
    counts = run.summary(trials.run(notify))
    return {
        "kind": "brec",
        "options": asdict(trials.options),
        "seeds": counts,
        "seconds": six_digits(perf_counter() - started),
        "jobs": trials.jobs,
        # Pairs with stored results: trained earlier, perhaps on another device.
        "resumed_pairs": resumed,
        "ceiling": ceiling,
        "published": run.PUBLISHED,
        **environment(trials.device),
        "notes": [*_notes(counts, ceiling), *remarks],
    }


def ceiling_of_group(ceiling: Record, group: str) -> tuple[int, int]:
    """Return the counts of distinguished and untested pairs, of a group or of "all"."""
    apart, not_run = ceiling["apart"], ceiling["not_run_by_group"]
    if group == "all":
        return sum(apart.values()), sum(not_run.values())
    return apart[group], not_run[group]


def _above(seeds: Record, ceiling: Record) -> list[str]:
    return [
        f"{count} of {name} (seed {seed}, {words})"
        for seed, by_group in seeds.items()
        for name, found in by_group.items()
        for words, count in (
            ("as released", found["released"]),
            ("with the value times q", found["corrected"]),
        )
        if count > sum(ceiling_of_group(ceiling, name))
    ]


def _notes(seeds: Record, ceiling: Record | None) -> list[str]:
    lines = []
    for seed, by_group in seeds.items():
        found = by_group["all"]
        lines.append(
            f"Seed {seed}: {found['singular']} singular covariances; the reliability "
            f"check failed for {found['unreliable_released']} pairs with the released "
            f"value, and for {found['unreliable_corrected']} with this value times 32. "
            "These pairs are not counted."
        )
    if ceiling is not None:
        lines.append(f"Ceiling: exact count of {ceiling['test']}.")
        if ceiling["not_run"]:
            lines.append(
                f"The ceiling lacks {ceiling['not_run']} pairs, whose graphs are too "
                "large for this test."
            )
        if above := _above(seeds, ceiling):
            told = "Above the ceiling, so by chance or rounding errors"
            lines.append(f"{told}: {', '.join(above)}.")
    counts = ", ".join(f"{name} {count}" for name, count in run.PUBLISHED.items())
    lines.append(f"In the BREC paper, of 400 pairs: {counts}.")
    return lines


def wl_record(contender: Contender, counts: Sequence[BrecCount]) -> Record:
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
        **environment(),
    }

"""Build the JSON records of BREC: counts of WL tests and of trained networks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter

import torch

from gnnak.brec import run
from gnnak.brec.ceiling import BrecCount, run_brec
from gnnak.brec.data import Pair
from gnnak.brec.trial import NO_FEATURES, OUT_CHANNELS, TrialOptions
from gnnak.errors import OptionError
from gnnak.models.bases import is_own_name
from gnnak.models.factory import build_model, parse_name
from gnnak.training.records.results import Record, environment, read_records, six_digits
from gnnak.wl.bounds import Contender, find_bound
from gnnak.wl.options import read_options

WORDS = {
    "whole": "whole graphs",
    "deletion": "graphs without the edges of the root",
    "masked-egonets": "whole graphs with only the edges of an egonet",
}
"""Descriptions, for messages, of the kinds of rooted subgraphs other than egonets."""


def ceiling_of(options: TrialOptions) -> Contender | None:
    """Return a WL test at least as expressive as the network; None if none is known."""
    marked = options.pairs is None or len(options.pairs) > 0
    return find_bound(options.model, options.num_hops, marked, options.subgraphs)


def no_ceiling(options: TrialOptions) -> str:
    where = "" if options.subgraphs == "egonets" else f" on {WORDS[options.subgraphs]}"
    return f"No ceiling: no WL test is known that bounds {options.model}{where}."


def count_ceiling(
    groups: Mapping[str, Sequence[Pair]],
    bound: Contender,
    records: Path,
    progress: Callable[[int], None],
) -> Record:
    """Count pairs that a WL test distinguishes; reuse counts in the file `records`."""
    counts = _recorded(bound, records)
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


def _recorded(bound: Contender, path: Path) -> dict[str, tuple[int, int]]:
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
        build_model(
            options.model,
            NO_FEATURES,
            None,
            OUT_CHANNELS,
            options.model_options(),
            degrees=(0, 1),  # for the base GNN PNA
        )
    base = parse_name(options.model).base
    if jobs > 1 and is_own_name(base):
        raise OptionError(
            f"--jobs is {jobs}, but processes do not import your class {base}; use "
            "--jobs 1."
        )


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
    """Return a text for each count of a network that exceeds the ceiling."""
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
        above = _above(seeds, ceiling)
        if above:
            lines.append(
                f"Above the ceiling, so by chance or rounding errors: "
                f"{', '.join(above)}."
            )
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

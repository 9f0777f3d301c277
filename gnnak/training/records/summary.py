"""Many runs, one figure: mean and deviation over seeds and folds, and what is short."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from gnnak.errors import OptionError
from gnnak.training.records.results import Record

Measure = Literal["score", "seconds", "memory"]
"""What is read from records: the score, seconds of a training epoch with its data, or
the peak of memory in training, in MB."""


@dataclass(frozen=True)
class Summary:
    """What the runs of one cell come to."""

    mean: float
    """The mean over the runs."""
    deviation: float | None
    """The sample's deviation over the runs; None for a single one."""
    runs: int
    """How many runs."""
    note: str = ""
    """What is short of what was asked for; empty if nothing is."""


def summarise(
    records: Sequence[Record],
    measure: Measure = "score",
    *,
    seeds: int | None = None,
    folds: int | None = None,
    epochs: int | None = None,
) -> Summary:
    """The mean over runs that differ in seed and fold alone.

    Of several records with one seed and fold the last counts. The score is that on
    the test graphs at the best validation epoch of each run. Folds of the published
    protocol have no test graphs: there the validation curves are averaged over all
    runs, and mean and deviation are those at the epoch where the average is best (the
    GIN protocol).

    Args:
        records: Records of kind "run", oldest first.
        measure: What is read from them.
        seeds: How many seeds were asked for; None = not to be checked.
        folds: How many folds for each seed.
        epochs: How many epochs.

    Raises:
        OptionError: If there is no record.
    """
    if not records:
        raise OptionError("no record to summarise; give those of at least one run.")
    latest = {(r["seed"], r.get("fold")): r for r in records}
    chosen = [latest[key] for key in sorted(latest, key=_order)]
    values = _values(chosen, measure)
    notes = [
        _short_epochs(chosen, epochs),
        _short_runs(chosen, seeds, folds),
        _several_sources(chosen),
    ]
    return Summary(
        fmean(values),
        stdev(values) if len(values) > 1 else None,
        len(values),
        "; ".join(note for note in notes if note),
    )


def best_mean_epoch(curves: Sequence[Sequence[float]], lower_is_better: bool) -> int:
    """The epoch, counted from 0, at which the mean of the curves is best.

    Of equal ones the first; curves are read as far as the shortest goes.

    >>> best_mean_epoch([[0.9, 0.5, 0.6], [0.1, 0.8, 0.6]], lower_is_better=False)
    1
    """
    means = [fmean(values) for values in zip(*curves, strict=False)]
    return means.index(min(means) if lower_is_better else max(means))


def _several_sources(records: Sequence[Record]) -> str:
    sources = sorted({str(record.get("source")) for record in records})
    return f"on graphs from {' and '.join(sources)}" if len(sources) > 1 else ""


def _order(key: tuple[int, int | None]) -> tuple[int, int]:
    return key[0], -1 if key[1] is None else key[1]


def _values(records: Sequence[Record], measure: Measure) -> list[float]:
    if measure == "score":
        return _scores(records)
    read: dict[str, Callable[[Record], float]] = {
        "seconds": lambda r: r["seconds"].get("data", 0.0) + r["seconds"]["train"],
        "memory": lambda r: r["peak_memory_mb"]["train"],
    }
    return [read[measure](record) for record in records]


def _scores(records: Sequence[Record]) -> list[float]:
    first = records[0]
    if first.get("fold") is None or first["protocol"] != "published":
        return [record["scores"]["test"] for record in records]
    curves = [record["curves"]["validation"] for record in records]
    best = best_mean_epoch(curves, first["lower_is_better"])
    return [curve[best] for curve in curves]


def _short_epochs(records: Sequence[Record], asked: int | None) -> str:
    trained = min(record["epochs"] for record in records)
    stopped = any(_stops_early(record) for record in records)
    if asked is None or trained == asked or stopped:
        return ""
    return f"trained for {trained} of {asked} epochs"


def _stops_early(record: Record) -> bool:
    return record["config"]["train"].get("early_stop") is not None


def _short_runs(records: Sequence[Record], seeds: int | None, folds: int | None) -> str:
    ran_seeds = len({record["seed"] for record in records})
    ran_folds = len({record.get("fold") for record in records})
    notes = []
    if seeds is not None and ran_seeds < seeds:
        notes.append(f"{ran_seeds} of {seeds} seeds")
    if folds is not None and ran_folds < folds:
        notes.append(f"{ran_folds} of {folds} folds")
    elif folds is not None and len(records) < ran_seeds * folds:
        notes.append(f"{len(records)} of {ran_seeds * folds} runs")
    return ", ".join(notes)

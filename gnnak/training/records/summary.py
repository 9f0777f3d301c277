"""Summarise runs that differ only in seed and fold: mean and standard deviation."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from gnnak.errors import OptionError
from gnnak.training.records.results import Record

Measure = Literal["score", "seconds", "memory"]
"""The test score, seconds of a training epoch, or peak memory of training in MB."""


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation over the runs of one table cell (model and task)."""

    mean: float | None
    """The mean over the runs; None if the score of every run is undefined."""
    deviation: float | None
    """The sample standard deviation over the runs; None for a single run."""
    runs: int
    note: str = ""
    """A text about missing runs or undefined scores; empty if there are none."""
    lower_is_better: bool = True
    values: tuple[float, ...] = ()
    """The score, seconds or memory of each run, sorted by seed and fold."""
    shortened: bool = False
    """Whether a run had fewer epochs than expected; only for the measure "score"."""


def summarise(
    records: Sequence[Record],
    measure: Measure = "score",
    *,
    seeds: int | None = None,
    folds: int | None = None,
    epochs: int | None = None,
) -> Summary:
    """Summarise runs that differ only in seed and fold, using each run's newest record.

    Scores are test scores of the best validation epoch; undefined scores are ignored.
    Folds of the protocol `published` have no test graphs: as in the GIN paper, their
    scores are validation scores at the epoch where the mean curve of all runs is best.
    The `note` says which of the expected `seeds`, `folds` and `epochs` are missing.
    """
    if not records:
        raise OptionError("no records to summarise; give those of at least one run.")
    latest = {(r["seed"], r.get("fold")): r for r in records}
    runs = sorted(latest, key=lambda run: (run[0], -1 if run[1] is None else run[1]))
    chosen = [latest[run] for run in runs]
    every = _values(chosen, measure)
    values = [value for value in every if value is not None]
    trained, expected = min(r["epochs"] for r in chosen), _expected(chosen, epochs)
    sources = sorted({str(record.get("source")) for record in chosen})
    notes = []
    if lost := len(every) - len(values):
        notes.append(f"the test score is undefined in {lost} of {len(every)} runs")
    if expected not in (None, trained):
        notes.append(f"trained for {trained} of {expected} epochs")
    notes.append(_missing_runs(chosen, seeds, folds))
    if len(sources) > 1:
        notes.append(f"on graphs from {' and '.join(sources)}")
    return Summary(
        fmean(values) if values else None,
        stdev(values) if len(values) > 1 else None,
        len(values),
        "; ".join(note for note in notes if note),
        measure != "score" or bool(chosen[0]["lower_is_better"]),
        tuple(values),
        measure == "score" and trained < (expected or 0),
    )


def best_mean_epoch(curves: Sequence[Sequence[float]], lower_is_better: bool) -> int:
    """Return the first epoch, from 0, at which the mean of the curves is best."""
    means = [fmean(values) for values in zip(*curves, strict=False)]
    return means.index(min(means) if lower_is_better else max(means))


def _values(records: Sequence[Record], measure: Measure) -> list[float | None]:
    if measure == "seconds":
        seconds = [record["seconds"] for record in records]
        return [each.get("data", 0.0) + each["train"] for each in seconds]
    if measure == "memory":
        return [record["peak_memory_mb"]["train"] for record in records]
    first = records[0]
    if first.get("fold") is None or first["protocol"] != "published":
        return [record["scores"].get("test") for record in records]
    curves = [record["curves"]["validation"] for record in records]
    best = best_mean_epoch(curves, first["lower_is_better"])
    return [curve[best] for curve in curves]


def _expected(records: Sequence[Record], epochs: int | None) -> int | None:
    """Return the expected number of epochs; None if a run may stop early."""
    stops = [record["config"]["train"].get("early_stop") for record in records]
    return epochs if set(stops) == {None} else None


def _missing_runs(
    records: Sequence[Record], seeds: int | None, folds: int | None
) -> str:
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

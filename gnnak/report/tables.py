"""Fill the paper's tables with our numbers, and compare these with the paper's."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Literal

from gnnak.datasets import describe_dataset, find_entry, load_dataset
from gnnak.errors import OptionError
from gnnak.report.cells import TABLES, Cell, PaperTable, Plan, read_once
from gnnak.training.config.options import change
from gnnak.training.records.lookup import (
    STATISTICS,
    RunRecords,
    Summary,
    dataset_sizes,
    read_statistics,
    summarise,
)
from gnnak.training.records.results import Record, append_record, environment
from gnnak.training.schedule.estimate import Estimator, runs_at_once
from gnnak.training.schedule.pool import Job

Verdict = Literal["better", "within", "worse", "oom"]
"""How our number compares with the paper's, see `compare`."""
SIGNS: dict[Verdict, str] = {"better": "▲", "within": "≈", "worse": "▼", "oom": "◆"}
DEVIATIONS = 2.0
"""Largest difference of numbers that agree, in standard deviations of the paper."""
SHARE = 0.05
"""If the paper has no deviation, numbers agree up to this relative difference."""
NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)\D*(?:± (\d+(?:\.\d+)?))?\D*")


def parse_number(text: str) -> tuple[float, float] | None:
    """Return a printed mean, and how much ours may differ; None for "OOM"."""
    found = NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    mean, deviation = found.groups()
    digits = len(mean.partition(".")[2])
    half_unit = 0.5 * 10.0**-digits
    allowed = DEVIATIONS * float(deviation) if deviation else SHARE * abs(float(mean))
    return float(mean), max(allowed, half_unit)


def compare(cell: Cell, ours: Summary) -> Verdict | None:
    """Compare our number with the paper's; return None if they are not comparable.

    If the test graphs are generated, numbers may also differ by the noise of the data.
    """
    if cell.paper is None or ours.mean is None or ours.shortened:
        return None
    paper = parse_number(cell.paper)
    if paper is None:
        return "oom" if cell.paper == "OOM" else None
    scale = 100 if cell.style.percent else 1
    mean, noise = scale * ours.mean, scale * DEVIATIONS * ours.noise
    gain = paper[0] - mean if ours.lower_is_better else mean - paper[0]
    if abs(gain) <= math.hypot(paper[1], noise) * (1 + 1e-9):
        return "within"
    return "better" if gain > 0 else "worse"


@dataclass(frozen=True)
class Counts:
    cells: int = 0
    """Cells that show the result of runs. Each field is a number of cells."""
    run: int = 0
    """Cells with runs of full length. The next five fields add up to this number."""
    better: int = 0
    within: int = 0
    worse: int = 0
    oom: int = 0
    """Cells in which the paper's run was out of memory."""
    new: int = 0
    """Cells for which the paper has no number."""
    seeds: int = 0
    """Cells with at least as many runs, over seeds and folds, as in the paper."""
    explained: int = 0
    """Cells counted in `worse` for which `reason_of` gives a reason."""

    @property
    def share(self) -> float | None:
        """Share of compared cells that are not worse; None if no cell is compared."""
        compared = self.better + self.within + self.worse
        return (self.better + self.within) / compared if compared else None


KNOWN = TABLES / "_worse.yaml"
"""File that maps a part of a cell's title to the reason why our number is worse."""


def reason_of(cell: Cell, ours: Summary) -> str | None:
    """Return why our number is worse than the paper's; None if not worse or unknown."""
    if compare(cell, ours) != "worse":
        return None
    of_seeds = cell.plan is None or cell.plan.folds is None
    alone = [compare(cell, replace(ours, mean=value)) for value in ours.values]
    if of_seeds and len(alone) > 1 and set(alone) != {"worse"}:
        shown = ", ".join(cell.style.number(value) for value in ours.values)
        return f"the runs differ ({shown}), and not all are worse than the paper's."
    for text, reason in read_once(KNOWN).items():
        if text in cell.title:
            return reason
    return None


def remarks_on(cells: Iterable[tuple[Cell, Summary]]) -> list[str]:
    """Return the known reasons for worse numbers, each with the titles of its cells."""
    titles: dict[str, list[str]] = {}
    for cell, ours in cells:
        reason = reason_of(cell, ours)
        if reason is not None:
            titles.setdefault(reason, []).append(cell.title)
    return [f"{SIGNS['worse']} {'; '.join(t)}: {why}" for why, t in titles.items()]


LEGEND = (
    "Our number, then the paper's in brackets. ≈: at most two of the paper's standard "
    "deviations apart (at most 5 % if the paper gives none); ▲: better by more than "
    "that; ▼: worse by more than that; ◆: the paper ran out of memory (OOM)."
)
SUMMARY_LEGEND = (
    "cells: with scores. run: those with a run as long as the paper's; of these, "
    "within: at most two of the paper's standard deviations apart (5 % if it gives "
    "none), better or worse: by more, oom: the paper ran out of memory, new: not in "
    "the paper, seeds: as many runs as there, explained: worse, with a known reason."
)
"""What the columns of `Counts` mean."""
NOT_RUN = "[n min]: not run; one seed would take about n minutes, alone on one {}."


@dataclass(frozen=True)
class Filled:
    """A table cell with the paper's number and the number that we measured."""

    cell: Cell
    ours: str = ""
    """The number that we measured, as printed; empty if we have none for this cell."""
    summary: Summary | None = None
    """Mean and deviation over our runs; None if the cell has no runs."""
    mark: str = ""
    """Letter of the cell's footnote; empty if the cell has no footnote."""
    minutes: float | None = None
    """Estimated minutes for one seed, if the cell was not run; None if unknown."""

    @property
    def verdict(self) -> Verdict | None:
        return None if self.summary is None else compare(self.cell, self.summary)

    @property
    def has_all_runs(self) -> bool:
        plan, found = self.cell.plan, self.summary
        wanted = plan.runs * (plan.folds or 1) if plan else 0
        return found is not None and found.runs >= wanted

    @property
    def sign(self) -> str:
        return SIGNS[self.verdict] if self.verdict else ""

    @property
    def reason(self) -> str | None:
        return None if self.summary is None else reason_of(self.cell, self.summary)

    @property
    def text(self) -> str:
        paper = f"({self.cell.paper})" if self.cell.paper else ""
        mark = f"[{self.mark}]" if self.mark else ""
        parts = [self.ours or self.expected, mark, self.sign, paper]
        return " ".join(part for part in parts if part)

    @property
    def expected(self) -> str:
        if self.minutes is None:
            return ""
        return f"[{max(1, round(self.minutes))} min]"

    def as_dict(self) -> dict[str, Any]:
        found = self.summary
        return {
            "row": self.cell.row,
            "column": self.cell.column,
            "ours": self.ours,
            "mean": None if found is None else found.mean,
            "deviation": None if found is None else found.deviation,
            "runs": 0 if found is None else found.runs,
            "paper": self.cell.paper or "",
            "note": "" if found is None else found.note,
            "verdict": self.verdict or "",
            "minutes": self.minutes,
        }


@dataclass(frozen=True)
class FilledTable:
    table: PaperTable
    rows: tuple[tuple[Filled, ...], ...]
    footnotes: tuple[tuple[str, str], ...]
    """Letter and text of every footnote, such as ("a", "1 of 3 seeds")."""
    device: str = ""
    """The device for which the time of missing runs is estimated."""

    @property
    def counts(self) -> Counts:
        cells = [cell for row in self.rows for cell in row if cell.cell.plan]
        run = [c for c in cells if c.summary is not None and not c.summary.shortened]
        return Counts(
            cells=len(cells),
            run=len(run),
            seeds=sum(cell.has_all_runs for cell in run),
            explained=sum(cell.reason is not None for cell in run),
            **Counter(str(cell.verdict or "new") for cell in run),
        )

    @property
    def header(self) -> list[str]:
        return ["", *self.table.columns]

    @property
    def body(self) -> list[list[str]]:
        return [[row[0].cell.row, *(c.text for c in row)] for row in self.rows]

    @property
    def titled_rows(self) -> list[tuple[str | Filled, ...]]:
        return [(row[0].cell.row, *row) for row in self.rows]

    @property
    def remarks(self) -> list[str]:
        signed = [f"[{mark}] {note}." for mark, note in self.footnotes]
        has_times = any(cell.expected for row in self.rows for cell in row)
        times = [NOT_RUN.format(self.device)] if has_times else []
        cells = [cell for row in self.rows for cell in row]
        worse = remarks_on((c.cell, c.summary) for c in cells if c.summary is not None)
        return [*signed, LEGEND, *times, *worse, *self.table.notes]


def fill_tables(
    tables: Iterable[PaperTable],
    records: RunRecords,
    statistics: Mapping[str, Record] | None = None,
) -> list[FilledTable]:
    """Add our numbers to tables; estimate the time of missing runs on our device."""
    known, on = statistics or {}, records.usual_device

    @cache
    def estimator() -> Estimator:
        return Estimator(records.timed, on, sizes=dataset_sizes(known))

    filled = []
    for table in tables:
        marks: dict[str, str] = {}
        rows = tuple(
            tuple(_fill(cell, records, known, marks, estimator) for cell in row)
            for row in table.rows
        )
        notes = tuple((mark, note) for note, mark in marks.items())
        filled.append(FilledTable(table, rows, notes, on))
    return filled


def fill_from_folder(tables: Iterable[PaperTable], results: Path) -> list[FilledTable]:
    return fill_tables(tables, RunRecords.read(results), read_statistics(results))


def plan_summary(plan: Plan, runs: RunRecords) -> Summary | None:
    """Summarise the recorded runs of a plan; None if no run has enough epochs."""
    records = runs.complete(plan.config)
    if plan.measure == "seconds":
        alone = [record for record in records if runs_at_once(record) == 1]
        records = alone or records
    if not records:
        return None
    wanted = {"seeds": plan.runs, "folds": plan.folds, "epochs": plan.epochs}
    found = summarise(records, plan.measure, **wanted)
    if plan.measure == "score":
        return replace(found, noise=runs.data_noise(plan.config))
    devices = sorted({str(record.get("device")) for record in records})
    most = max(runs_at_once(record) for record in records)
    is_shared = most > 1 and plan.measure == "seconds"
    shared = f"with {most} runs at once" if is_shared else ""
    notes = [f"on {' and '.join(devices)}", shared, found.note]
    note = "; ".join(note for note in notes if note)
    return replace(found, deviation=None, note=note)


def _fill(
    cell: Cell,
    records: RunRecords,
    statistics: Mapping[str, Record],
    marks: dict[str, str],
    estimator: Callable[[], Estimator],
) -> Filled:
    """Add our number to a cell, and its footnote to `marks` (maps text to letter)."""
    if cell.fact is not None and cell.fact.dataset in statistics:
        value = statistics[cell.fact.dataset][cell.fact.statistic]
        shown = cell.style.number(value) if isinstance(value, float) else str(value)
        return Filled(cell, shown)
    plan = cell.plan
    if plan is None:
        return Filled(cell)
    found = plan_summary(plan, records)
    if found is None:
        estimate = estimator()(plan.config)
        seconds = None if estimate is None else (plan.folds or 1) * estimate.seconds
        return Filled(cell, minutes=None if seconds is None else seconds / 60)
    notes, mark = [found.note] if found.note else [], ""
    if found.noise:
        noise = cell.style.number(found.noise)
        notes.append(
            f"compared with a deviation of {noise} between generated test sets"
        )
    if notes:
        mark = marks.setdefault("; ".join(notes), _letters(len(marks)))
    return Filled(cell, _shown(cell, found), found, mark)


def _shown(cell: Cell, found: Summary) -> str:
    if found.mean is None:
        return "undefined"
    mean = cell.style.number(found.mean)
    if found.deviation is None:
        return mean
    return f"{mean} ± {cell.style.number(found.deviation)}"


def _letters(place: int) -> str:
    first, last = divmod(place, 26)
    return (_letters(first - 1) if first else "") + ascii_lowercase[last]


def pending_runs(
    table: PaperTable,
    records: RunRecords,
    seeds: int | None = None,
    only: Sequence[str] = (),
    folds: int | None = None,
) -> list[Job]:
    """Return a table's runs without a record of at least as many epochs as planned."""
    runs = []
    for cell in table.cells():
        plan = cell.plan
        if plan is None or not has_one_of(cell.title, only):
            continue
        config = plan.config
        longer = records.any_length(config, least=config.train.epochs + 1)
        done = {(r["seed"], r.get("fold")) for r in [*records.exact(config), *longer]}
        every = [None] if plan.folds is None else range(plan.folds)
        for seed, fold in product(range(seeds or plan.runs), every[:folds]):
            if (seed, fold) not in done:
                changes = {"train.seed": seed, "data.fold": fold}
                which = f"seed {seed}" if fold is None else f"seed {seed}, fold {fold}"
                title = f"{cell.title}, {which}"
                runs.append(Job(title, plan.experiment, change(config, changes)))
    return runs


def has_one_of(title: str, texts: Sequence[str]) -> bool:
    """Return whether a title contains one of `texts`; True if `texts` is empty."""
    return not texts or any(text.lower() in title.lower() for text in texts)


def check_only(tables: Sequence[PaperTable], only: Sequence[str]) -> None:
    cells = [cell for table in tables for row in table.rows for cell in row]
    titles = [cell.title for cell in cells]
    titles += [cell.fact.dataset for cell in cells if cell.fact]
    for text in only:
        if not any(has_one_of(title, [text]) for title in titles):
            raise OptionError(
                f"--only got {text!r}, which is in no cell's title; give a part of "
                f'"row / column", such as {titles[0]!r}.'
            )


def find_missing(
    tables: Sequence[PaperTable],
    results: Path,
    seeds: int | None,
    only: Sequence[str],
    folds: int | None = None,
) -> tuple[list[Job], list[str]]:
    """Return the runs without a record, and the data sets without statistics."""
    records, known = RunRecords.read(results), read_statistics(results)
    jobs = [
        job
        for table in tables
        for job in pending_runs(table, records, seeds, only, folds)
    ]
    missing = [name for table in tables for name in unmeasured(table, known)]
    return jobs, [name for name in dict.fromkeys(missing) if has_one_of(name, only)]


STAND_INS = ("connected-legacy", "spectral-radius")
"""Targets that only reproduce errors in the paper's data; not counted as tasks."""


def measure_dataset(name: str, results: Path) -> Record:
    entry = find_entry(name)
    described = describe_dataset(entry, load_dataset(name)).as_dict()
    targets = [target for target in entry.targets if target not in STAND_INS]
    outputs = len(targets) or described["outputs"]
    record = {"kind": "dataset", **described, "outputs": outputs, **environment()}
    append_record(results / STATISTICS, record)
    return record


def unmeasured(table: PaperTable, known: Iterable[str]) -> list[str]:
    known = set(known)
    facts = [cell.fact for row in table.rows for cell in row if cell.fact]
    return [n for n in dict.fromkeys(f.dataset for f in facts) if n not in known]

"""Find the training runs that a table needs and that have not been run yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gnnak.report.cells import Cell, PaperTable, Plan
from gnnak.report.lookup import RunRecords
from gnnak.report.tables import all_pairs
from gnnak.training.config.options import change
from gnnak.training.schedule.job import Job


def pending_runs(
    table: PaperTable,
    records: RunRecords,
    seeds: int | None = None,
    only: Sequence[str] = (),
    folds: int | None = None,
) -> list[Job]:
    """Return the runs that a table needs and that have no record.

    A run counts as done if there is a record with the same config, seed and fold, or of
    a run that was longer and otherwise the same.

    Args:
        table: The table.
        records: The records of all runs done so far.
        seeds: Number of seeds per table cell; None = as many as in the paper.
        only: Return only the runs of cells whose title contains one of these texts, in
            upper or lower case; empty = the runs of all cells.
        folds: Number of folds of each cross-validation: its first ones; None = all.
    """
    return [
        run
        for cell in table.cells()
        if has_one_of(cell.title, only) and cell.plan is not None
        for run in _of_cell(cell, cell.plan, records, seeds, folds)
    ]


def has_one_of(title: str, texts: Sequence[str]) -> bool:
    """Return whether a title contains one of several texts, or there are no texts.

    >>> has_one_of("GIN / ZINC", ["zinc", "mutag"]), has_one_of("GIN / ZINC", ["csl"])
    (True, False)
    """
    return not texts or any(text.lower() in title.lower() for text in texts)


def _of_cell(
    cell: Cell, plan: Plan, records: RunRecords, seeds: int | None, folds: int | None
) -> list[Job]:
    if plan.folds is not None and folds is not None:
        plan = replace(plan, folds=min(folds, plan.folds))
    config = plan.config
    longer = records.any_length(config, least=config.train.epochs + 1)
    done = {(r["seed"], r.get("fold")) for r in [*records.exact(config), *longer]}
    runs = []
    for seed, fold in all_pairs(seeds or plan.runs, plan.folds):
        if (seed, fold) not in done:
            config = change(plan.config, {"train.seed": seed, "data.fold": fold})
            which = f"seed {seed}" if fold is None else f"seed {seed}, fold {fold}"
            title = f"{cell.title}, {which}"
            runs.append(Job(title, plan.experiment, config))
    return runs

"""Find the training runs that a table needs and that have not been run yet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gnnak.report.cells import Cell, PaperTable, Plan
from gnnak.report.lookup import RunRecords
from gnnak.report.tables import all_pairs
from gnnak.training.config.experiment import load_experiment
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig


@dataclass(frozen=True)
class PendingRun:
    """A training run that a table needs and that has not been run yet."""

    title: str
    """Title of the table cell that needs this run, followed by the seed and the fold of
    the run."""
    experiment: str
    """Name of the experiment (a YAML file in `configs/`) that `config` is derived
    from."""
    config: RunConfig
    """The config of the run, including its seed and fold."""

    def settings(self) -> list[str]:
        """Return the options in which `config` differs from the experiment's config.

        The format, KEY=VALUE, is that of the option `--set` of `gnnak train`.

        >>> config = change(load_experiment("zinc").config, {"train.seed": 2})
        >>> PendingRun("a cell", "zinc", config).settings()
        ['train.seed=2']
        """
        start = _flat(load_experiment(self.experiment).config.to_dict())
        own = _flat(self.config.to_dict())
        changed = {key: own[key] for key in own if own[key] != start[key]}
        return [f"{key}={json.dumps(value)}" for key, value in changed.items()]


def pending_runs(
    table: PaperTable,
    records: RunRecords,
    seeds: int | None = None,
    only: str = "",
) -> list[PendingRun]:
    """Return the training runs that a table needs and that have not been run yet.

    A run counts as done if there is a record with the same config, seed and fold.

    Args:
        table: The table.
        records: The records of all runs done so far.
        seeds: Number of seeds per table cell; None = as many as in the paper.
        only: Return only runs for table cells whose title contains this text; upper and
            lower case are not distinguished.
    """
    return [
        run
        for cell in table.cells()
        if only.lower() in cell.title.lower() and cell.plan is not None
        for run in _of_cell(cell, cell.plan, records, seeds)
    ]


def _of_cell(
    cell: Cell, plan: Plan, records: RunRecords, seeds: int | None
) -> list[PendingRun]:
    done = {(r["seed"], r.get("fold")) for r in records.exact(plan.config)}
    runs = []
    for seed, fold in all_pairs(seeds or plan.runs, plan.folds):
        if (seed, fold) not in done:
            config = change(plan.config, {"train.seed": seed, "data.fold": fold})
            which = f"seed {seed}" if fold is None else f"seed {seed}, fold {fold}"
            title = f"{cell.title}, {which}"
            runs.append(PendingRun(title, plan.experiment, config))
    return runs


def _flat(options: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested mappings: `{"a": {"b": 1}}` becomes `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in options.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat

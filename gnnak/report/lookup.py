"""Find the JSON records of training runs by the config of the run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from gnnak.errors import OptionError
from gnnak.report.cells import Plan
from gnnak.training.config.options import change
from gnnak.training.config.run_config import PER_RUN, RunConfig
from gnnak.training.records.results import Record, read_records
from gnnak.training.records.summary import Summary, summarise
from gnnak.training.schedule.estimate import runs_at_once

SHORT = ("train.epochs",)
"""Options in which a record that `RunRecords.nearest` returns may differ from the given
config."""


class RunRecords:
    """Records of training runs, searchable by config.

    Seed and fold do not matter in a search. If an option did not exist when a record
    was written, its default value is assumed. A search does not find records with
    options that no longer exist.

    Args:
        records: JSON records, oldest first; kinds other than "run" are ignored.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = [r for r in records if r.get("kind") == "run"]
        self._exact: dict[str, list[Record]] = {}
        self._short: dict[str, list[Record]] = {}
        keys: dict[str, tuple[str, str] | None] = {}
        for record in self.records:
            text = _shared_settings(record)
            if text not in keys:
                keys[text] = _keys(record)
            key = keys[text]
            if key is not None:
                self._exact.setdefault(key[0], []).append(record)
                self._short.setdefault(key[1], []).append(record)

    @classmethod
    def read(cls, folder: Path) -> RunRecords:
        """Read all files `runs*.jsonl` of a folder; a missing folder has no records."""
        files = sorted(folder.glob("runs*.jsonl"))
        return cls(record for file in files for record in read_records(file))

    @property
    def usual_device(self) -> str:
        """The device of most records; empty if there are no records."""
        devices = Counter(str(record.get("device")) for record in self.records)
        return devices.most_common(1)[0][0] if devices else ""

    def exact(self, config: RunConfig) -> list[Record]:
        """Return the records with this config, for any seed and fold."""
        return self._exact.get(config.cell(), [])

    def nearest(self, config: RunConfig) -> list[Record]:
        """Return the records with this config, or else with other numbers of epochs.

        If no record has this config, look at the records that differ from it only in
        the number of epochs, and return those of them with the most epochs.
        """
        if found := self.exact(config):
            return found
        others = self._short.get(config.cell(also_without=SHORT), [])
        most = max((_epochs(record) for record in others), default=0)
        return [record for record in others if _epochs(record) == most]

    def summary(self, plan: Plan) -> Summary | None:
        """Return mean and deviation over the recorded runs of a table cell.

        Args:
            plan: The runs needed for the cell.

        Returns:
            The summary, or None if none of the runs has a record. Its note names the
            runs or epochs that are missing and, for time and memory, the device.
        """
        records = self.nearest(plan.config)
        if plan.measure == "seconds":
            alone = [record for record in records if runs_at_once(record) == 1]
            records = alone or records
        if not records:
            return None
        found = summarise(
            records,
            plan.measure,
            seeds=plan.runs,
            folds=plan.folds,
            epochs=plan.epochs,
        )
        if plan.measure == "score":
            return found
        devices = sorted({str(record.get("device")) for record in records})
        most = max(runs_at_once(record) for record in records)
        shared = f"with {most} runs at once" if most > 1 else ""
        if plan.measure == "memory":
            shared = ""
        notes = [f"on {' and '.join(devices)}", shared, found.note]
        note = "; ".join(note for note in notes if note)
        return replace(found, deviation=None, note=note)


def _shared_settings(record: Record) -> str:
    """Return the config of a run without its seed and fold, as JSON.

    Runs that differ only in seed and fold give the same text.
    """
    options = {group: dict(values) for group, values in record["config"].items()}
    for name in PER_RUN:
        group, key = name.split(".")
        options.get(group, {}).pop(key, None)
    return json.dumps(options, sort_keys=True)


def _keys(record: Record) -> tuple[str, str] | None:
    """Return two hashes of a run's config: with and without the number of epochs.

    Seed and fold do not enter the hashes. Returns None if the config has options that
    no longer exist.
    """
    try:
        config = change(RunConfig(), record["config"])
    except OptionError:
        return None
    return config.cell(), config.cell(also_without=SHORT)


def _epochs(record: Record) -> int:
    return record["config"]["train"]["epochs"]

"""Records of runs, found by what was run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from gnnak.errors import OptionError
from gnnak.report.cells import Plan
from gnnak.training.config import PER_RUN, RunConfig
from gnnak.training.options import change
from gnnak.training.results import Record, read_records
from gnnak.training.summary import Summary, summarise

SHORT = ("train.epochs",)


class RunRecords:
    """Records of kind "run", by the settings that the runs of a cell share.

    Settings are compared as they read today: a record from before an option was there
    counts as one that has its default. Records of settings that cannot be read any
    more are left out.

    Args:
        records: Records, oldest first; those of other kinds are not read.
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
        """All `runs*.jsonl` of a folder; none if there is no folder."""
        files = sorted(folder.glob("runs*.jsonl"))
        return cls(record for file in files for record in read_records(file))

    def exact(self, config: RunConfig) -> list[Record]:
        """Records with these settings, whatever the seed and the fold."""
        return self._exact.get(config.cell(), [])

    def nearest(self, config: RunConfig) -> list[Record]:
        """Those, or if there are none those with the most epochs of the others."""
        if found := self.exact(config):
            return found
        others = self._short.get(config.cell(also_without=SHORT), [])
        most = max((_epochs(record) for record in others), default=0)
        return [record for record in others if _epochs(record) == most]

    def summary(self, plan: Plan) -> Summary | None:
        """What the runs of a cell come to; None if there are none."""
        records = self.nearest(plan.config)
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
        notes = [f"on {' and '.join(devices)}", found.note]
        note = "; ".join(note for note in notes if note)
        return Summary(found.mean, None, found.runs, note)


def _shared_settings(record: Record) -> str:
    """The settings without seed and fold: what is read once for all runs of a cell."""
    options = {room: dict(values) for room, values in record["config"].items()}
    for name in PER_RUN:
        room, key = name.split(".")
        options.get(room, {}).pop(key, None)
    return json.dumps(options, sort_keys=True)


def _keys(record: Record) -> tuple[str, str] | None:
    try:
        config = change(RunConfig(), record["config"])
    except OptionError:
        return None
    return config.cell(), config.cell(also_without=SHORT)


def _epochs(record: Record) -> int:
    return record["config"]["train"]["epochs"]

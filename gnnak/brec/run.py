"""Run the BREC benchmark in several worker processes; a stopped run can be resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from gnnak.brec.data import Pair
from gnnak.brec.trial import (
    BATCH_SIZE,
    TrialOptions,
    TrialResult,
    run_trial,
    step_bytes,
)
from gnnak.errors import TrainingError, counted
from gnnak.training.records.results import Record, append_record, read_records
from gnnak.training.schedule.pool import (
    Ended,
    Pool,
    Queue,
    Task,
    Watcher,
    Work,
    multi_process_service,
)

Place = tuple[int, str, int]
"""Identifies a training: seed, group, and index of the pair in the group."""


@dataclass(frozen=True)
class PairWork(Work):
    """A task for a worker process: train a network on one pair of graphs."""

    place: Place
    graphs: tuple[tuple[list[list[int]], int], ...]
    """Two graphs: `edge_index` as two lists, and number of nodes. The lists are
    pickled; tensors would need shared memory, which is limited."""


def train_on_pair(options: TrialOptions, device: torch.device, work: PairWork) -> str:
    """Do the work of a worker process; return the `TrialResult` as JSON text."""
    first, second = (
        (torch.tensor(ends, dtype=torch.long).view(2, -1), num_nodes)
        for ends, num_nodes in work.graphs
    )
    result = run_trial((first, second), options, work.place[0], device)
    return json.dumps(asdict(result))


class _Results(Watcher):
    """Passes each result of a worker process to `finish`, and collects failures."""

    def __init__(self, finish: Callable[[Place, TrialResult], None]) -> None:
        self.finish = finish
        self.failures: list[str] = []

    def ended(self, task: Task, outcome: Ended, seconds: float) -> None:
        if outcome.failed:
            self.failures.append(f"{task.job.title}: {outcome.text}")
            return
        assert isinstance(task.job, PairWork)
        self.finish(task.job.place, TrialResult(**json.loads(outcome.text)))


PUBLISHED: dict[str, int] = {
    "NGNN": 166,
    "DSS-GNN": 221,
    "DS-GNN": 222,
    "GNN-AK": 222,
    "SUN": 223,
    "SSWL+": 248,
    "I2-GNN": 281,
}
"""Maps GNNs to the number of pairs, of 400, that they distinguish in the BREC paper."""

Results = dict[int, dict[str, list[TrialResult]]]
"""Maps seed and group to the results of all pairs in the group."""


@dataclass(frozen=True)
class Progress:
    """The file with one line of JSON per finished pair, from which a run is resumed."""

    path: Path

    @staticmethod
    def of(folder: Path, options: TrialOptions) -> Progress:
        digest = hashlib.sha256(json.dumps(asdict(options)).encode()).hexdigest()[:10]
        name = options.model.replace("*", "star")
        return Progress(folder / f"{name}-{digest}.jsonl")

    def finished(self) -> dict[Place, TrialResult]:
        found = {}
        for line in read_records(self.path):
            place = (line.pop("seed"), line.pop("group"), line.pop("pair"))
            found[place] = TrialResult(**line)
        return found

    def add(self, seed: int, group: str, pair: int, result: TrialResult) -> None:
        place = {"seed": seed, "group": group, "pair": pair}
        append_record(self.path, place | asdict(result))


@dataclass(frozen=True)
class Trials:
    """The trainings of a run of BREC: one for each pair of graphs and each seed."""

    groups: Mapping[str, Sequence[Pair]]
    options: TrialOptions
    seeds: Sequence[int]
    device: torch.device
    progress: Progress
    jobs: int = 1
    """Number of worker processes."""

    def pairs(self) -> dict[Place, Pair]:
        return {
            (seed, group, index): pair
            for seed in self.seeds
            for group, pairs in self.groups.items()
            for index, pair in enumerate(pairs)
        }

    def run(
        self, notify: Callable[[str, int], None] = lambda group, seed: None
    ) -> Results:
        found, pairs = self.progress.finished(), self.pairs()
        missing = {place: pair for place, pair in pairs.items() if place not in found}
        for seed, group, _ in pairs.keys() & found.keys():
            notify(group, seed)

        def finish(place: Place, result: TrialResult) -> None:
            found[place] = result
            self.progress.add(*place, result)
            notify(place[1], place[0])

        if self.jobs > 1 and missing:
            self._run_in_parallel(missing, finish)
        else:
            for place, pair in missing.items():
                finish(place, run_trial(pair, self.options, place[0], self.device))
        results: Results = {seed: {} for seed in self.seeds}
        for seed, group, index in pairs:
            results[seed].setdefault(group, []).append(found[seed, group, index])
        return results

    def _run_in_parallel(
        self, pairs: Mapping[Place, Pair], finish: Callable[[Place, TrialResult], None]
    ) -> None:
        tasks = []
        for (seed, group, index), pair in pairs.items():
            graphs = tuple((ends.tolist(), num_nodes) for ends, num_nodes in pair)
            title, place = f"{group} {index}, seed {seed}", (seed, group, index)
            size = step_bytes(pair[0], self.options, BATCH_SIZE, self.device)
            # The estimate of the seconds only orders the tasks, so bytes serve as well.
            tasks.append(Task(PairWork(title, place, graphs), size, size / 1e6))
        results, logs = _Results(finish), self.progress.path.parent / "logs"
        gpu = self.device.type == "cuda"
        with multi_process_service() if gpu else nullcontext(False):
            train = partial(train_on_pair, self.options, self.device)
            Pool(Queue(tasks), min(self.jobs, len(tasks)), train, logs, results).run()
        if results.failures:
            raise TrainingError(
                f"{counted(len(results.failures), 'pair')} failed, first "
                f"{results.failures[0]}; run the same command again to retry these "
                "pairs."
            )


def counts(found: Sequence[TrialResult]) -> Record:
    return {
        "pairs": len(found),
        "released": sum(result.distinguished(corrected=False) for result in found),
        "corrected": sum(result.distinguished(corrected=True) for result in found),
        "unreliable_released": sum(not r.reliable(corrected=False) for r in found),
        "unreliable_corrected": sum(not r.reliable(corrected=True) for r in found),
        "singular": sum(result.singular for result in found),
    }


def summary(results: Results) -> Record:
    return {
        str(seed): {name: counts(found) for name, found in by_group.items()}
        | {"all": counts([result for found in by_group.values() for result in found])}
        for seed, by_group in results.items()
    }

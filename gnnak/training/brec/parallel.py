"""Train on many pairs of BREC at the same time, in several worker processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from gnnak.errors import TrainingError, counted
from gnnak.graphs.families import Graph
from gnnak.training.brec.cost import step_bytes
from gnnak.training.brec.options import TrialOptions
from gnnak.training.brec.trial import BATCH_SIZE, TrialResult, run_trial
from gnnak.training.schedule.estimate import Estimate
from gnnak.training.schedule.job import Work
from gnnak.training.schedule.mps import multi_process_service
from gnnak.training.schedule.pool import Pool
from gnnak.training.schedule.queue import Queue, Task
from gnnak.training.schedule.worker import Ended

Place = tuple[int, str, int]
"""Identifies the training on one pair: a seed, the name of a group, and the index of
the pair in this group."""


@dataclass(frozen=True)
class PairWork(Work):
    """Training on one pair of graphs, as it is sent to a worker process."""

    seed: int
    """Seed of the weights and the relabellings."""
    group: str
    """Name of the group of the pair."""
    pair: int
    """Index of the pair in its group."""
    graphs: tuple[tuple[list[list[int]], int], ...]
    """The two graphs, each as a list of two lists (`edge_index`) and the number of
    nodes. Tensors would be sent through shared memory, which is limited."""

    @staticmethod
    def of(place: Place, pair: Sequence[Graph]) -> PairWork:
        """Return the work of training on a pair."""
        seed, group, index = place
        graphs = tuple((ends.tolist(), num_nodes) for ends, num_nodes in pair)
        return PairWork(f"{group} {index}, seed {seed}", seed, group, index, graphs)

    @property
    def place(self) -> Place:
        """The seed, group and index of the pair."""
        return self.seed, self.group, self.pair


@dataclass(frozen=True)
class PairTraining:
    """Trains on pairs, in a worker process."""

    options: TrialOptions
    """Options of the network and of its training."""
    device: str
    """Where to train."""

    def __call__(self, work: PairWork) -> str:
        """Train on one pair; return the result as JSON."""
        first, second = (
            (torch.tensor(ends, dtype=torch.long).view(2, -1), num_nodes)
            for ends, num_nodes in work.graphs
        )
        device = torch.device(self.device)
        result = run_trial((first, second), self.options, work.seed, device)
        return json.dumps(result.as_dict())


class _Results:
    """Receives the results of worker processes, as a `Watcher` of the pool.

    Args:
        finish: Function that is called with the result of each pair.

    Attributes:
        failures: For each pair whose training failed, its name and the error message.
    """

    def __init__(self, finish: Callable[[Place, TrialResult], None]) -> None:
        self.finish = finish
        self.failures: list[str] = []

    def update(self, running: dict[str, tuple[Task, float]], queue: Queue) -> None:
        """Do nothing: the progress bar counts finished pairs only."""

    def retried(self, task: Task, reason: str) -> None:
        """Do nothing: a pair takes seconds, so users need not know of a second try."""

    def ended(self, task: Task, outcome: Ended, seconds: float) -> None:
        """Call `finish` with the result of a pair, or store its error message."""
        if outcome.failed:
            self.failures.append(f"{task.job.title}: {outcome.text}")
            return
        assert isinstance(task.job, PairWork)
        self.finish(task.job.place, TrialResult(**json.loads(outcome.text)))


def run_in_parallel(
    pairs: Sequence[tuple[Place, Sequence[Graph]]],
    options: TrialOptions,
    device: torch.device,
    jobs: int,
    logs: Path,
    finish: Callable[[Place, TrialResult], None],
) -> None:
    """Train a network on every pair, with several worker processes.

    The largest pairs come first, and no more pairs run at the same time than are
    expected to fit into the memory of the GPU. On an NVIDIA GPU, kernels of the workers
    run in parallel if its multi-process service (MPS) is installed.

    Args:
        pairs: The pairs, each with its seed, group and index.
        options: Options of the network and of its training.
        device: Where to train.
        jobs: Number of worker processes.
        logs: Folder for the output of the workers.
        finish: Function that is called with the result of each pair.

    Raises:
        TrainingError: If the training on some pairs failed; all others were finished.
    """
    if not pairs:
        return
    tasks = []
    for place, pair in pairs:
        size = step_bytes(pair[0], options, BATCH_SIZE, device)
        # The estimate of the seconds only orders the tasks, so bytes serve as well.
        tasks.append(Task(PairWork.of(place, pair), Estimate(size, size / 1e6)))
    results = _Results(finish)
    gpu = device.type == "cuda"
    with multi_process_service() if gpu else nullcontext(False):
        train = PairTraining(options, str(device))
        Pool(Queue(tasks), min(jobs, len(tasks)), train, logs, results).run()
    if results.failures:
        raise TrainingError(
            f"{counted(len(results.failures), 'pair')} failed, first "
            f"{results.failures[0]}; run the same command again to retry these pairs."
        )

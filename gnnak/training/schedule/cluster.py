"""Do the runs of a schedule, and parts of predictions, on a Ray cluster."""

import logging
import math
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import torch

from gnnak import __version__
from gnnak.backend import use_backend
from gnnak.errors import OptionError, TrainingError
from gnnak.graphs.readers.files import make_folder
from gnnak.optional import import_optional
from gnnak.training.config.run_config import RunConfig
from gnnak.training.launch import Places
from gnnak.training.processes.machine import Machine
from gnnak.training.processes.stopping import Stopped, stoppable
from gnnak.training.records.results import Record, append_record, read_records
from gnnak.training.schedule.pool import (
    CONTEXT_MB,
    POLL_SECONDS,
    RUN_ALONE,
    SHARE,
    STOP_SECONDS,
    Ended,
    Job,
    Queue,
    Result,
    Task,
    Training,
    Watcher,
    do_job,
)

CONNECT_SECONDS = 15
"""Seconds within which a Ray cluster must answer."""
CHECK_SECONDS = 120
"""Seconds within which all nodes must have started a worker and answered."""
LOCK_SECONDS = 60
"""Seconds to wait until a worker that died no longer locks the folder of its run."""
RETRIES = 3
"""How often Ray starts a task again after its worker or its node has died."""
PARTS_PER_GPU = 4
"""Number of parts of a prediction on a GPU, which idles while graphs are read."""
PROBE = "import sys, ray; ray.init(sys.argv[1], log_to_driver=False)"
"""A program that fails if no Ray cluster answers at an address."""


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster. Its devices are its GPUs or, if it has none, its nodes."""

    ray: Any
    """The package `ray`, which is connected to the cluster."""
    nodes: Sequence[dict[str, float]]
    """The resources of each node by Ray's names, such as `CPU` and `GPU`."""
    machine: Machine
    """How each task is executed."""

    @property
    def is_gpu(self) -> bool:
        return self.machine.accelerator != "cpu"

    def least(self, name: str) -> float:
        """Return the smallest amount of a resource that comes with one device."""
        return min(
            node.get(name, 0.0) / (node["GPU"] if self.is_gpu else 1)
            for node in self.nodes
        )

    def resources(self, jobs: int, megabytes: float = 0.0) -> dict[str, float]:
        """Return what Ray reserves for one of `jobs` tasks on a device.

        A task that needs more memory than its share of the GPU gets a larger share.
        """
        share, found = 1 / jobs, {}
        if self.is_gpu:
            if torch.cuda.is_available():  # assumes that all GPUs have the same memory
                whole = torch.cuda.get_device_properties(0).total_memory / 2**20
                share = max(share, (megabytes + CONTEXT_MB) / (SHARE * whole))
            share = min(1.0, share)
            found["num_gpus"] = _four_digits(share)
        elif megabytes:
            found["memory"] = min(megabytes * 2**20, self.least("memory"))
        cpus = share * self.least("CPU")
        return found | {"num_cpus": int(cpus) if cpus >= 1 else _four_digits(cpus)}

    def slots(self, jobs: int) -> int:
        """Return how many tasks the cluster does at once."""
        name, key = ("GPU", "num_gpus") if self.is_gpu else ("CPU", "num_cpus")
        amount = self.resources(jobs)[key]
        return sum(int(node.get(name, 0.0) / amount) for node in self.nodes)

    def map(self, function: partial[Any], items: Iterable[Any]) -> Iterator[Any]:
        """Apply a function to the items by tasks; yield the results in their order.

        The first argument of `function` are the models that a task moves to its device.
        At most twice as many tasks as the cluster does at once are under way.
        """
        jobs = PARTS_PER_GPU if self.is_gpu else max(1, int(self.least("CPU")))
        remote = self.ray.remote(max_retries=RETRIES, **self.resources(jobs))
        task, shared = remote(call_on_worker), self.ray.put((function, self.machine))
        results = (task.remote(shared, item) for item in items)
        running = deque(islice(results, 2 * self.slots(jobs)))
        while running:
            while not wait(self.ray, [running[0]], POLL_SECONDS):
                continue
            try:
                found = self.ray.get(running.popleft())
            except self.ray.exceptions.RayError as error:
                told = f"a part was tried {RETRIES + 1} times ({first_sentence(error)})"
                lost = TrainingError(f"{told}; give the same command with --resume.")
                raise getattr(error, "cause", None) or lost from None
            yield found
            running.extend(islice(results, 1))


def _four_digits(amount: float) -> float:
    return math.floor(amount * 1e4) / 1e4


def call_on_worker(shared: tuple[partial[Any], Machine], item: Any) -> Any:
    """Apply a function in a worker of Ray, with its models on the worker's device."""
    function, machine = shared
    torch.set_num_threads(1)
    for model in function.args[0]:
        model.to(machine.device)
    with use_backend(machine.backend):
        return function(item)


@contextmanager
def connected_to_train(
    address: str, machine: Machine, places: Places, configs: Iterable[RunConfig]
) -> Iterator[Cluster]:
    """Context manager: connect to Ray, if all nodes see the data and a new file."""
    files: set[str | Path | None] = {places.data}
    for own in (config.data.own for config in configs):
        files |= {own.path, own.labels, own.validation, own.test}
    with NamedTemporaryFile(dir=make_folder(places.runs)) as new:
        seen = [".", new.name, *(file for file in files if file)]
        with connected(address, machine, seen) as cluster:
            yield cluster


@contextmanager
def connected(
    address: str, machine: Machine, files: Iterable[str | Path] = ()
) -> Iterator[Cluster]:
    """Context manager: connect to a Ray cluster whose nodes all see some files."""
    ray = import_optional("ray", "--ray needs", "ray")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        options["include_dashboard"] = False
    else:
        _check_address(address)
    ray.init(address, **options)
    try:
        nodes = _check_nodes(ray, [os.path.abspath(file) for file in files])
        if machine.accelerator != "cpu":
            has_gpu = bool(with_devices(nodes, is_gpu=True))
            if machine.accelerator == "gpu" and not has_gpu:
                raise OptionError("the Ray cluster has no GPU; use --accelerator cpu.")
            machine = machine if has_gpu else replace(machine, accelerator="cpu")
        nodes = with_devices(nodes, machine.accelerator != "cpu")
        yield Cluster(ray, nodes, machine)
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Connect in another process, because Ray tries for minutes without an answer."""
    command = [sys.executable, "-c", PROBE, address]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=CONNECT_SECONDS
        )
    except subprocess.TimeoutExpired:
        reason = "no answer"
    else:
        if done.returncode == 0:
            return
        line = done.stderr.strip().rpartition("\n")[2]
        reason = line.partition(". ")[0].rstrip(".")
    raise OptionError(
        f"there is no Ray cluster at {address} ({reason}); give the address that `ray "
        "start` printed, or local (for `gnnak train`, in RAY_ADDRESS)."
    )


def _check_nodes(ray: Any, files: Sequence[str]) -> list[dict[str, Any]]:

    # Ray sends a local function as code, so that nodes without gnnak can run it.
    def look() -> tuple[str | None, list[str]]:
        try:
            version = import_module("gnnak").__version__
        except ImportError:
            version = None
        return version, [file for file in files if not os.path.exists(file)]

    on_node = import_module(
        "ray.util.scheduling_strategies"
    ).NodeAffinitySchedulingStrategy
    task = ray.remote(num_cpus=0)(look)
    nodes = alive_nodes(ray)
    places = [on_node(node["NodeID"], soft=False) for node in nodes]
    asked = [task.options(scheduling_strategy=place).remote() for place in places]
    try:
        answers = ray.get(asked, timeout=CHECK_SECONDS)
    except ray.exceptions.RayError as error:
        told = f"a node of the Ray cluster does not answer: {first_sentence(error)}"
        raise TrainingError(f"{told}; see `ray status`.") from error
    for node, answer in zip(nodes, answers, strict=True):
        check_node(node["NodeManagerAddress"], *answer)
    if not nodes:
        raise TrainingError("no node of the Ray cluster has a CPU; add a node.")
    return nodes


def alive_nodes(ray: Any) -> list[dict[str, Any]]:
    """Return what Ray says about each node that is alive and has a CPU."""
    return [n for n in ray.nodes() if n["Alive"] and n["Resources"].get("CPU")]


def with_devices(
    nodes: Sequence[dict[str, Any]], is_gpu: bool
) -> list[dict[str, float]]:
    """Return the resources of the nodes; only of those with a GPU if `is_gpu`."""
    found = [node["Resources"] for node in nodes]
    return [each for each in found if each.get("GPU") or not is_gpu]


def check_node(address: str, version: str | None, unseen: Sequence[str]) -> None:
    """Raise `TrainingError` if a node has another `version`, or does not see files."""
    told = f"the node {address} of the Ray cluster"
    if version != __version__:
        found = "no gnnak" if version is None else f"gnnak {version}"
        raise TrainingError(f"{told} has {found}; install gnnak {__version__} there.")
    if unseen:
        raise TrainingError(
            f"{told} does not see {unseen[0]}; give a folder that all nodes share, "
            "under the same path."
        )


def wait(ray: Any, results: list[Any], seconds: float, count: int = 1) -> list[Any]:
    """Wait for `count` of the results, at most `seconds`; return those that are there.

    A signal is handled afterwards, because Ray's code cannot be left by `Stopped`.
    """
    with stoppable() as request:
        request.deferred = True
        ready, _ = ray.wait(results, num_returns=count, timeout=seconds)
    if request.number is not None:
        signal.raise_signal(request.number)
    return ready


def first_sentence(error: Exception) -> str:
    line = str(error).strip().partition("\n")[0]
    return line.partition(". ")[0].rstrip(".") or type(error).__name__


def _own_results(places: Places, job: Job) -> Places:
    return replace(places, results=places.of(job.config, job.experiment))


def train_on_worker(
    train: Training, job: Job, folder: str, threads: int
) -> tuple[Ended, list[Record]]:
    """Do a run in a worker of Ray, in `folder`; return its outcome and its record.

    The record is stored in the folder of the run: if this worker dies before Ray has
    the result, the next worker returns this record and does not train again.
    """
    os.chdir(folder)
    torch.set_num_threads(threads)
    train = replace(train, places=_own_results(train.places, job))
    end = time.monotonic() + LOCK_SECONDS
    try:
        while (outcome := do_job(train, job)).elsewhere and time.monotonic() < end:
            time.sleep(1)
    except Stopped as stopped:
        if stopped.number == signal.SIGINT:  # Ray cancels the task
            raise KeyboardInterrupt from None
        os._exit(1)  # the node ends; Ray starts the task again on another one
    return outcome, [] if outcome.failed else read_records(train.places.records)


@dataclass
class ClusterPool:
    """Does the tasks of a queue on a Ray cluster, until `seconds` have passed."""

    cluster: Cluster
    queue: Queue
    train: Training
    watcher: Watcher
    seconds: float = math.inf
    result: Result = field(default_factory=Result)
    running: dict[Any, tuple[Task, float]] = field(default_factory=dict)
    """The tasks under way and their starts, by the references to their results."""

    def run(self) -> Result:
        ray, end = self.cluster.ray, time.monotonic() + self.seconds
        try:
            while (left := end - time.monotonic()) > 0:
                while len(self.running) < self.queue.workers and self._start(left):
                    continue
                if not self.running:
                    break
                shown = enumerate(self.running.values(), start=1)
                self.watcher.update({str(n): each for n, each in shown}, self.queue)
                for result in wait(ray, [*self.running], min(left, POLL_SECONDS)):
                    self._finish(result, *self.running.pop(result))
            self.result.cut = [task.job for task, _ in self.running.values()]
            self.result.waiting = [task.job for task in self.queue.waiting]
            return self.result
        finally:
            for result in self.running:
                ray.cancel(result)
            if count := len(self.running):
                wait(ray, [*self.running], STOP_SECONDS, count)

    def _start(self, left: float) -> bool:
        task = self.queue.take([task for task, _ in self.running.values()], left)
        if task is None:
            return False
        jobs = 1 if task.alone else self.train.machine.jobs
        needed = self.cluster.resources(jobs, task.megabytes)
        remote = self.cluster.ray.remote(max_retries=RETRIES, **needed)(train_on_worker)
        threads = max(1, int(needed["num_cpus"]))
        result = remote.remote(self.train, task.job, os.getcwd(), threads)
        self.running[result] = task, time.monotonic()
        return True

    def _finish(self, result: Any, task: Task, started: float) -> None:
        assert isinstance(task.job, Job)
        try:
            outcome, records = self.cluster.ray.get(result)
        except self.cluster.ray.exceptions.RayError as error:
            outcome, records = Ended(first_sentence(error), failed=True), []
        for record in records:
            append_record(self.train.places.records, record)
            _own_results(self.train.places, task.job).records.unlink(missing_ok=True)
        if outcome.out_of_memory and not task.alone:
            self.queue.add(task.retry(alone=True))
            self.watcher.retried(task, RUN_ALONE)
            return
        self.result.add(task.job, outcome)
        self.watcher.ended(task, outcome, time.monotonic() - started)

"""Do the runs of a schedule, and parts of predictions, on a Ray cluster."""

from __future__ import annotations

import gc
import logging
import math
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gnnak import __version__
from gnnak.backend import use_backend
from gnnak.errors import OptionError, TrainingError
from gnnak.graphs.readers.files import make_folder
from gnnak.optional import missing_package
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
PARTS_PER_GPU = 4
"""Number of parts of a prediction on a GPU, which idles while graphs are read."""
RETRIES = 3
"""How often Ray starts a task again after its worker or its node has died."""
PROBE = "import sys, ray; ray.init(sys.argv[1], log_to_driver=False)"
"""A program that fails if no Ray cluster answers at an address."""
GPUS = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
"""A command that prints a line with name and memory, in MB, for each GPU of a node."""


class Node(NamedTuple):
    """What a node of a Ray cluster tells about itself."""

    address: str
    resources: dict[str, float]
    """Ray's name and amount of each resource, such as `CPU` and `GPU`."""
    version: str | None = __version__
    """The version of gnnak; None if it cannot be imported."""
    unseen: Sequence[str] = ()
    """The files and folders that were asked for and do not exist on the node."""
    gpus: Sequence[str] = ()
    """What `GPUS` prints."""

    def check(self) -> None:
        """Raise `TrainingError` if the node cannot do the same work as this machine."""
        told = f"the node {self.address} of the Ray cluster"
        if self.version is None:
            raise TrainingError(f"{told} has no gnnak; install {__version__} there.")
        if self.version != __version__:
            raise TrainingError(
                f"{told} has gnnak {self.version}, and this machine has {__version__}; "
                "install the same version on both."
            )
        if self.unseen:
            raise TrainingError(
                f"{told} does not see {self.unseen[0]}; give a folder that all nodes "
                "share, under the same path."
            )


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster. Its devices are its GPUs or, if it has none, its nodes."""

    ray: Any
    """The package `ray`, which is connected to the cluster."""
    nodes: Sequence[Node]
    machine: Machine
    """How each task is executed."""

    @property
    def is_gpu(self) -> bool:
        return self.machine.accelerator != "cpu"

    @property
    def device(self) -> str | None:
        """The name of the GPUs; None if there are none, or their name is unknown."""
        names = [line.rpartition(",")[0] for node in self.nodes for line in node.gpus]
        return names[0] if names and self.is_gpu else None

    def least(self, name: str) -> float:
        """Return the smallest amount of a resource that comes with one device."""
        nodes = [node.resources for node in self.nodes]
        if not self.is_gpu:
            return min(node.get(name, 0.0) for node in nodes)
        return min(n.get(name, 0.0) / n["GPU"] for n in nodes if n.get("GPU"))

    def resources(self, jobs: int, megabytes: float = 0.0) -> dict[str, float]:
        """Return what Ray reserves for one of `jobs` tasks on a device."""
        share, found = 1 / jobs, {}
        if self.is_gpu:
            sizes = [line.rpartition(",")[2] for n in self.nodes for line in n.gpus]
            memory = SHARE * min(map(float, sizes), default=math.inf)
            share = min(1.0, max(share, (megabytes + CONTEXT_MB) / memory))
            found["num_gpus"] = _rounded_down(share)
        elif megabytes:
            found["memory"] = min(megabytes * 2**20, self.least("memory"))
        return found | {"num_cpus": _rounded_down(share * self.least("CPU"))}

    def slots(self, jobs: int) -> int:
        """Return how many tasks the nodes that are alive now can do at once."""
        name, key = ("GPU", "num_gpus") if self.is_gpu else ("CPU", "num_cpus")
        whole = self.ray.cluster_resources().get(name, 0.0)
        return max(1, int(whole / self.resources(jobs)[key]))

    def map(self, function: partial[Any], items: Iterable[Any]) -> Iterator[Any]:
        """Apply a function to the items by tasks; yield the results in their order.

        The first argument of `function` are the models that a task moves to its device.
        At most twice as many tasks as the cluster does at once are under way.
        """
        jobs = PARTS_PER_GPU if self.is_gpu else max(1, int(self.least("CPU")))
        most, running = 2 * self.slots(jobs), deque[Any]()
        remote = self.ray.remote(max_retries=RETRIES, **self.resources(jobs))
        task, shared = remote(call_on_worker), self.ray.put((function, self.machine))
        for item in items:
            running.append(task.remote(shared, item))
            if len(running) == most:
                yield self._result(running.popleft())
        while running:
            yield self._result(running.popleft())

    def _result(self, result: Any) -> Any:
        """Wait for the result of a task; raise its error without Ray's traceback."""
        errors = self.ray.exceptions
        while not wait(self.ray, [result], POLL_SECONDS):
            continue
        try:
            return self.ray.get(result)
        except errors.RayTaskError as error:
            raise error.cause from None
        except errors.RayError as error:
            raise TrainingError(
                f"a part was given up after {RETRIES} retries: {_first_line(error)}."
            ) from error


def call_on_worker(shared: tuple[partial[Any], Machine], item: Any) -> Any:
    """Apply a function in a worker of Ray, with its models on the worker's device."""
    function, machine = shared
    torch.set_num_threads(1)
    for model in function.args[0]:
        model.to(machine.device)
    with use_backend(machine.backend):
        return function(item)


def _rounded_down(amount: float) -> float:
    """Round an amount of a resource so that Ray takes it: to 4 digits, or whole."""
    return int(amount) if amount >= 1 else math.floor(amount * 1e4) / 1e4


@contextmanager
def connected(
    address: str,
    machine: Machine,
    folder: Path | None = None,
    files: Iterable[str | Path | None] = (),
) -> Iterator[Cluster]:
    """Context manager: connect to a Ray cluster, after its nodes have been checked.

    All nodes must see `files`, and a file that is written to `folder` for this check.
    """
    try:
        import ray
    except ImportError as error:
        raise missing_package("--ray needs", "ray") from error

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        options["include_dashboard"] = False
    else:
        _check_address(address)
    ray.init(address, **options)
    try:
        nodes = _ask_nodes(ray, folder, [str(file) for file in files if file])
        has_gpu = any(node.resources.get("GPU") for node in nodes)
        if machine.accelerator == "gpu" and not has_gpu:
            raise OptionError("the Ray cluster has no GPU; use --accelerator cpu.")
        if not has_gpu:
            machine = replace(machine, accelerator="cpu")
        yield Cluster(ray, nodes, machine)
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Connect in another process, because Ray tries for minutes without an answer."""
    command, reason = [sys.executable, "-c", PROBE, address], ["no answer"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=CONNECT_SECONDS
        )
        if done.returncode == 0:
            return
        reason = done.stderr.strip().splitlines() or reason
    except subprocess.TimeoutExpired:
        pass
    raise OptionError(
        f"there is no Ray cluster at {address} ({reason[-1].rstrip('.')}); give the "
        "address that `ray start` printed, or local."
    )


def _ask_nodes(ray: Any, folder: Path | None, files: Sequence[str]) -> list[Node]:
    """Start a task on each node that looks at it; check and return the answers."""
    place, command, paths = os.getcwd(), GPUS, {file: file for file in files}
    token = None
    if folder is not None:
        token = make_folder(folder) / f".ray-{secrets.token_hex(8)}"
        token.touch()
        paths[str(folder)] = str(token)

    # Ray sends a local function as code, so that nodes without gnnak can run it.
    def look() -> dict[str, Any]:
        found: dict[str, Any] = {"version": None, "gpus": []}
        with suppress(ImportError):
            found["version"] = import_module("gnnak").__version__
        with suppress(OSError, subprocess.TimeoutExpired):
            run = subprocess.run(command, capture_output=True, text=True, timeout=20)
            found["gpus"] = run.stdout.splitlines()
        there = {name: os.path.join(place, path) for name, path in paths.items()}
        return found | {"unseen": [n for n in there if not os.path.exists(there[n])]}

    strategy = import_module("ray.util.scheduling_strategies")
    task, told, asked = ray.remote(num_cpus=0)(look), ray.nodes(), []
    told = [node for node in told if node["Alive"] and node["Resources"].get("CPU")]
    for node in told:
        there = strategy.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        asked.append(task.options(scheduling_strategy=there).remote())
    try:
        answers = ray.get(asked, timeout=CHECK_SECONDS)
    except ray.exceptions.RayError as error:
        reason = _first_line(error)
        raise TrainingError(
            f"a node of the Ray cluster does not answer ({reason}); see `ray status`."
        ) from error
    finally:
        if token is not None:
            token.unlink(missing_ok=True)
    nodes = [
        Node(node["NodeManagerAddress"], node["Resources"], **answer)
        for node, answer in zip(told, answers, strict=True)
    ]
    for each in nodes:
        each.check()
    if not nodes:
        raise TrainingError("no node of the Ray cluster has a CPU; add a node.")
    return nodes


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


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _own_results(places: Places, job: Job) -> Places:
    """Return the places of a run whose record is stored in the folder of the run."""
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
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    return outcome, [] if outcome.failed else read_records(train.places.records)


class ClusterPool:
    """Does the tasks of a queue on a Ray cluster, until `seconds` have passed."""

    def __init__(
        self,
        cluster: Cluster,
        queue: Queue,
        train: Training,
        watcher: Watcher,
        seconds: float = math.inf,
    ) -> None:
        self.cluster, self.queue, self.train = cluster, queue, train
        self.watcher, self.end = watcher, time.monotonic() + seconds
        self.result = Result()
        self._remote = cluster.ray.remote(max_retries=RETRIES)(train_on_worker)
        # The task, its start and its number, by the reference to its result.
        self._running: dict[Any, tuple[Task, float, str]] = {}
        self._started = 0

    def run(self) -> Result:
        try:
            while time.monotonic() < self.end:
                self._submit()
                if not self._running:
                    break
                shown = {name: (task, at) for task, at, name in self._running.values()}
                self.watcher.update(shown, self.queue)
                self._receive()
            self.result.cut = [task.job for task, *_ in self._running.values()]
            self.result.waiting = [task.job for task in self.queue.waiting]
            return self.result
        finally:
            self._cancel()

    def _submit(self) -> None:
        jobs = self.train.machine.jobs
        while len(self._running) < self.cluster.slots(jobs):
            now = time.monotonic()
            running = [task for task, *_ in self._running.values()]
            task = self.queue.take(running, self.end - now)
            if task is None:
                return
            sharing = 1 if task.alone else jobs
            needed = self.cluster.resources(sharing, task.megabytes)
            threads = max(1, int(needed["num_cpus"]))
            remote = self._remote.options(name=task.job.title, **needed)
            result = remote.remote(self.train, task.job, os.getcwd(), threads)
            self._started += 1
            self._running[result] = task, now, str(self._started)

    def _receive(self) -> None:
        """Wait for a run to end, at most `POLL_SECONDS`, and append its record."""
        ray = self.cluster.ray
        left = max(0.0, min(POLL_SECONDS, self.end - time.monotonic()))
        for result in wait(ray, list(self._running), left):
            task, started, _ = self._running.pop(result)
            assert isinstance(task.job, Job)
            try:
                outcome, records = ray.get(result)
            except ray.exceptions.RayError as error:
                outcome, records = Ended(_first_line(error), failed=True), []
            places = self.train.places
            for record in records:
                append_record(places.records, record)
                _own_results(places, task.job).records.unlink(missing_ok=True)
            if outcome.out_of_memory and not task.alone:
                self.queue.add(task.retry(alone=True))
                self.watcher.retried(task, RUN_ALONE)
                continue
            self.result.add(task.job, outcome)
            self.watcher.ended(task, outcome, time.monotonic() - started)

    def _cancel(self) -> None:
        """Stop the runs that are left; wait until they have written checkpoints."""
        left = list(self._running)
        for result in left:
            self.cluster.ray.cancel(result)
        if left:
            wait(self.cluster.ray, left, STOP_SECONDS, len(left))

"""Train a run in several workers of a Ray cluster; start all again if one dies."""

import math
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.utilities.rank_zero import rank_zero_only
from rich.console import Console

from gnnak.datasets.record import Dataset
from gnnak.errors import OptionError, TrainingError, counted
from gnnak.training.config.run_config import RunConfig
from gnnak.training.launch import Places, find_dataset, run_experiment
from gnnak.training.processes.machine import Machine
from gnnak.training.processes.stopping import Stopped, stoppable
from gnnak.training.records.results import Record
from gnnak.training.run import run_reserved, run_title
from gnnak.training.schedule.cluster import (
    RETRIES,
    Cluster,
    alive_nodes,
    connected_to_train,
    first_sentence,
    wait,
    with_devices,
)
from gnnak.training.schedule.estimate import epochs_done
from gnnak.training.schedule.pool import POLL_SECONDS, STOP_SECONDS, import_base

LOSS_SECONDS = 60
"""Seconds that workers have to end after another worker has failed or died."""


class LostError(Exception):
    """Raised if a worker or its node has died."""


def train_on_cluster(
    config: RunConfig,
    experiment: str,
    places: Places,
    machine: Machine,
    resume: bool,
    console: Console,
) -> list[Record]:
    """Do the work of `run_experiment` in `machine.num_nodes` workers of Ray.

    The cluster is that of $RAY_ADDRESS or of this machine. This process, not a worker,
    locks the folders of the runs and appends the records.
    """
    address, places = os.environ.get("RAY_ADDRESS", "auto"), places.with_data_folder()
    with (
        connected_to_train(address, machine, places, [config]) as cluster,
        stoppable("go on with --resume"),
    ):
        name = "GPU" if cluster.is_gpu else "CPU"
        there = int(sum(node.get(name, 0.0) for node in cluster.nodes))
        if machine.num_nodes > there:
            raise OptionError(
                f"--ray is {machine.num_nodes}, but the Ray cluster has "
                f"{counted(there, name)}; give at most {there}."
            )
        train = Group(cluster, places).train
        return run_experiment(
            [config], experiment, places, machine, resume, console, train=train
        )


@dataclass(frozen=True)
class Group:
    """Workers of a Ray cluster that train a run together, each on its own device."""

    cluster: Cluster
    places: Places

    @property
    def size(self) -> int:
        return self.cluster.machine.num_nodes

    def train(
        self,
        config: RunConfig,
        dataset: Dataset,
        folder: Path,
        machine: Machine,
        resume: bool,
        console: Console,
    ) -> Record:
        """Do the work of `run_reserved`; if a worker dies, resume in new workers."""
        for start in range(RETRIES + 1):
            resumes = resume or start > 0
            work = partial(
                _train, config, self.places, folder, self.cluster.machine, resumes
            )
            with console.status("") as status:

                def show() -> None:
                    epochs = f"epoch {epochs_done(folder)} of {config.train.epochs}"
                    status.update(f"{run_title(config)}: {epochs}, {self.size} workers")

                try:
                    return self._run(work, show)
                except LostError as lost:
                    told = f"{lost}; the last checkpoint is of epoch"
            told = f"{told} {epochs_done(folder)}."
            console.print(told, markup=False, highlight=False, soft_wrap=True)
        raise TrainingError(
            f"workers of the Ray cluster died {RETRIES + 1} times; see `ray status`, "
            "then go on with --resume."
        )

    def _run(self, work: partial[Record], show: Callable[[], None]) -> Record:
        """Start all workers; return the result of rank 0 when all have ended."""
        ray, scheduling = self.cluster.ray, "ray.util.scheduling_strategies"
        in_group = import_module(scheduling).PlacementGroupSchedulingStrategy
        with self._reserved(show) as (group, needed):
            # A process that has trained in another group cannot train in this one.
            remote = partial(ray.remote, max_retries=0, max_calls=1, **needed)
            ranks = [in_group(group, rank) for rank in range(self.size)]
            find = remote(scheduling_strategy=ranks[0])(_free_address)
            (address,) = self._results([find.remote()], show)
            threads = max(1, int(needed["num_cpus"]))
            shared = ray.put((work, self.size, address, os.getcwd(), threads))
            workers = [
                remote(scheduling_strategy=place)(_work).remote(shared, rank)
                for rank, place in enumerate(ranks)
            ]
            try:
                return self._results(workers, show)[0]
            finally:
                self._stop(workers)

    @contextmanager
    def _reserved(self, show: Callable[[], None]) -> Iterator[tuple[Any, Any]]:
        """Context manager: wait until the devices of all workers are free; yield them.

        On CPUs, the workers are spread over the nodes that are alive.
        """
        ray, util = self.cluster.ray, import_module("ray.util")
        while True:
            alive, nodes = alive_nodes(ray), self.cluster.nodes
            # Without a device, wait for nodes like those at the start.
            nodes = with_devices(alive, self.cluster.is_gpu) or nodes
            jobs = 1 if self.cluster.is_gpu else math.ceil(self.size / len(nodes))
            needed = replace(self.cluster, nodes=nodes).resources(jobs)
            names = {"num_cpus": "CPU", "num_gpus": "GPU"}
            bundle = {names[name]: amount for name, amount in needed.items()}
            group = util.placement_group([bundle] * self.size)
            try:
                ready = group.ready()
                while len(alive_nodes(ray)) == len(alive):
                    if wait(ray, [ready], POLL_SECONDS):
                        yield group, needed
                        return
                    show()
            finally:
                util.remove_placement_group(group)

    def _results(self, tasks: Sequence[Any], show: Callable[[], None]) -> list[Any]:
        """Return the results of all tasks; raise `LostError` or the first error."""
        ray, left, end = self.cluster.ray, list(tasks), math.inf
        errors: list[Any] = []
        while left and time.monotonic() < end:
            for task in wait(ray, left, POLL_SECONDS):
                left.remove(task)
                try:
                    ray.get(task)
                except ray.exceptions.RayError as failed:
                    errors.append(failed)
                    end = min(end, time.monotonic() + LOSS_SECONDS)
            show()
        for error in errors:
            if not isinstance(error, ray.exceptions.RayTaskError):
                raise LostError(f"a worker died ({first_sentence(error)})") from error
        if errors:
            raise errors[0].cause
        return [ray.get(task) for task in tasks]

    def _stop(self, workers: Sequence[Any]) -> None:
        """End workers that are running: first by SIGINT, then by SIGKILL."""
        ray, count = self.cluster.ray, len(workers)
        for force in (False, True):
            running = ray.wait(workers, num_returns=count, timeout=0)[1]
            for worker in running:
                ray.cancel(worker, force=force)
            if running:
                wait(ray, list(workers), STOP_SECONDS, count)


def _free_address() -> tuple[str, int]:
    """Return the address of this node and a port at which rank 0 can listen."""
    with socket.socket() as found:
        found.bind(("", 0))
        port = found.getsockname()[1]
    return import_module("ray.util").get_node_ip_address(), port


def _work(shared: tuple[partial[Record], int, Any, str, int], rank: int) -> Record:
    """Work as one process of a group, as if `torchrun` had started one per machine."""
    work, size, (host, port), folder, threads = shared
    os.chdir(folder)
    numbers = {"RANK": rank, "GROUP_RANK": rank, "LOCAL_RANK": 0, "WORLD_SIZE": size}
    told = numbers | {"MASTER_ADDR": host, "MASTER_PORT": port}
    told["TORCHELASTIC_RUN_ID"] = "ray"
    os.environ.update({name: str(value) for name, value in told.items()})
    rank_zero_only.rank = rank  # type: ignore[attr-defined]
    torch.set_num_threads(threads)
    try:
        return work()
    except Stopped as stopped:
        if stopped.number == signal.SIGINT:  # Ray cancels the task
            raise KeyboardInterrupt from None
        os._exit(1)  # the node ends


def _train(
    config: RunConfig, places: Places, folder: Path, machine: Machine, resume: bool
) -> Record:
    import_base(config)
    dataset = find_dataset(config, places)
    return run_reserved(config, dataset, folder, machine, resume)

"""Build the network and the batches of a run or a benchmark."""

from typing import NamedTuple

import torch

from gnnak.datasets.record import Dataset
from gnnak.models.factory import parse_name
from gnnak.training.callbacks.timing import Clock
from gnnak.training.config.run_config import RunConfig
from gnnak.training.data import GraphData, degree_counts
from gnnak.training.module import GraphTask, build_network
from gnnak.training.processes.machine import Machine
from gnnak.training.protocols import Parts


class Prepared(NamedTuple):
    """The parts of a run before training starts."""

    task: GraphTask
    """The network, with new random weights, and its loss."""
    data: GraphData
    """The batches."""
    captured: bool
    """Whether training steps are captured (CUDA graphs)."""
    degrees: tuple[int, ...] | None
    """Number of training nodes of each in-degree, for networks that need it."""


def prepare(
    config: RunConfig, dataset: Dataset, parts: Parts, machine: Machine, clock: Clock
) -> Prepared:
    """Build the network of a run and the batches it is trained on.

    Sets the global seed of PyTorch to that of the run.
    """
    torch.manual_seed(config.train.seed)
    degrees = training_degrees(config, dataset, parts)
    network = build_network(config, dataset.info, degrees)
    network.save_memory(machine.recompute, machine.max_copies)
    captured = machine.captures(network, config.train.precision)
    task = GraphTask(
        config,
        dataset.info,
        network,
        batch_statistics=parts.batch_statistics,
        capture=captured,
        backend=machine.backend,
    )
    data = GraphData(
        dataset, parts, config.train, clock, task.extractor, network.drop, captured
    )
    return Prepared(task, data, captured, degrees)


def is_captured(
    config: RunConfig, dataset: Dataset, parts: Parts, machine: Machine
) -> bool:
    """Return whether `prepare` would capture the training steps of a run."""
    with torch.random.fork_rng(devices=[]):
        degrees = training_degrees(config, dataset, parts)
        network = build_network(config, dataset.info, degrees)
    return machine.captures(network, config.train.precision)


def training_degrees(
    config: RunConfig, dataset: Dataset, parts: Parts
) -> tuple[int, ...] | None:
    """Count the in-degrees of the training graphs, for networks that need them."""
    if not parse_name(config.model.name).needs_degrees:
        return None
    return degree_counts(dataset.store, parts.train)

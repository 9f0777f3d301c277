"""Build the Lightning modules of a run or a benchmark: network and batches."""

import warnings
from typing import NamedTuple

import torch

from gnnak.datasets.describe import memory_advice, sampled_sizes
from gnnak.datasets.record import Dataset
from gnnak.graphs import GraphStore
from gnnak.models.factory import parse_name
from gnnak.training.config.run_config import RunConfig
from gnnak.training.data import GraphData, degree_counts
from gnnak.training.losses import with_scaling
from gnnak.training.module import GraphTask, build_network
from gnnak.training.processes.machine import Machine
from gnnak.training.protocols import Parts
from gnnak.training.timing import Clock


class Prepared(NamedTuple):
    """The result of `prepare`: everything that training needs."""

    task: GraphTask
    """The Lightning module: the network, with new random weights, and its loss."""
    data: GraphData
    """The Lightning data module: batches for training, validation and test."""
    captured: bool
    """Whether training steps are captured as CUDA graphs and replayed."""
    degrees: tuple[int, ...] | None
    """Entry d is the number of nodes of in-degree d in the training graphs. None if the
    base GNN is not `pna`: other base GNNs do not need these counts."""


def prepare(
    config: RunConfig, dataset: Dataset, parts: Parts, machine: Machine, clock: Clock
) -> Prepared:
    """Build the Lightning module and the Lightning data module of a run.

    `clock` will measure the time of assembling training batches. Also calls
    `torch.manual_seed` with the seed of the run.
    """
    torch.manual_seed(config.train.seed)
    degrees = training_degrees(config, dataset, parts)
    info = with_scaling(dataset, parts.train)
    network = build_network(config, info, degrees)
    network.save_memory(machine.recompute, machine.max_copies)
    captured = machine.captures(network, config.train.precision)
    task = GraphTask(
        config,
        info,
        network,
        batch_statistics=parts.batch_statistics,
        capture=captured,
        backend=machine.backend,
    )
    data = GraphData(
        dataset, parts, config.train, clock, task.extractor, network.drop, captured
    )
    return Prepared(task, data, captured, degrees)


def warn_of_memory(task: GraphTask, store: GraphStore, machine: Machine) -> None:
    """Warn if a training step would take more memory than is free.

    The estimate is for plain PyTorch, so fused kernels on a GPU are not checked, and
    neither are training steps that sample subgraphs, recompute or are split.

    Args:
        task: The Lightning module.
        store: The training graphs.
        machine: Devices and processes.
    """
    model, network = task.config.model, task.network
    saves = machine.recompute or machine.max_copies is not None
    fused = machine.is_gpu and machine.fast
    if task.extractor is None or network.drop is not None or saves or fused:
        return
    sizes = sampled_sizes(store, task.extractor)
    if sizes is None:
        return
    batch_size = min(task.config.train.batch_size, len(store))
    needed = sizes.training_bytes(
        batch_size, model.num_layers, model.channels, model.hop_channels
    )
    advice = memory_advice(needed, batch_size, machine.device)
    if advice is not None:
        warnings.warn(advice, stacklevel=2)


def is_captured(
    config: RunConfig, dataset: Dataset, parts: Parts, machine: Machine
) -> bool:
    """Return whether `prepare` would capture training steps as CUDA graphs.

    Builds the network to find out, but does not change the state of PyTorch's random
    number generator on the CPU.
    """
    with torch.random.fork_rng(devices=[]):
        degrees = training_degrees(config, dataset, parts)
        network = build_network(config, dataset.info, degrees)
    return machine.captures(network, config.train.precision)


def training_degrees(
    config: RunConfig, dataset: Dataset, parts: Parts
) -> tuple[int, ...] | None:
    """Count how many nodes of the training graphs have each in-degree, for `pna`.

    Returns:
        Entry d is the number of nodes of in-degree d. None if the base GNN of the run
        is not `pna`: other base GNNs do not need these counts.
    """
    if not parse_name(config.model.name).needs_degrees:
        return None
    return degree_counts(dataset.store, parts.train)

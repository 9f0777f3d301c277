"""What is trained and on what, ready for a trainer: for runs and for rehearsals."""

from typing import NamedTuple

import torch

from gnnak.datasets.record import Dataset
from gnnak.training.clock import Clock
from gnnak.training.config import RunConfig
from gnnak.training.data import GraphData, degree_counts
from gnnak.training.machine import Machine
from gnnak.training.module import GraphTask
from gnnak.training.protocols import Parts


class Prepared(NamedTuple):
    """A network and its graphs."""

    task: GraphTask
    """The network, with fresh weights."""
    data: GraphData
    """The graphs."""
    captured: bool
    """Whether steps are captured."""
    degrees: tuple[int, ...] | None
    """How many training nodes have each in-degree, where the network reads it."""


def prepare(
    config: RunConfig, dataset: Dataset, parts: Parts, machine: Machine, clock: Clock
) -> Prepared:
    """Build the network of a run, and the batches it is trained on."""
    torch.manual_seed(config.train.seed)
    degrees = None
    if config.model.name.split("-")[0] == "pna":
        degrees = degree_counts(dataset.store, parts.train)
    captured = machine.captures(config)
    task = GraphTask(config, dataset.info, degrees, parts.batch_statistics, captured)
    task.network.save_memory(machine.recompute, machine.max_copies)
    task.network.use_fused(machine.fast)
    drop = task.network.drop
    data = GraphData(
        dataset, parts, config.train, clock, task.extractor, drop, captured
    )
    return Prepared(task, data, captured, degrees)

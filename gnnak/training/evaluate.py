"""Score a checkpoint on a data set."""

from dataclasses import replace
from pathlib import Path

import torch
from lightning.pytorch import Trainer

from gnnak.datasets.record import Dataset
from gnnak.errors import CheckpointError
from gnnak.graphs.readers.npz import Part
from gnnak.training.data import GraphData
from gnnak.training.module import GraphTask
from gnnak.training.processes.machine import (
    Machine,
    make_trainer,
    matmul_precision,
    quiet_lightning,
)
from gnnak.training.protocols import Parts, choose_parts
from gnnak.training.records.checkpoint import Checkpoint
from gnnak.training.records.results import fingerprint
from gnnak.training.timing import Clock


def evaluate(
    checkpoint: Checkpoint,
    dataset: Dataset,
    part: Part = "test",
    machine: Machine | None = None,
    other_data: bool = False,
) -> float:
    """Score a trained network on one part of a data set.

    Args:
        checkpoint: The weights and the config of the trained network.
        dataset: The graphs. Their features and task must be the same as in training.
        part: The part of the data set to score: `train`, `validation` or `test`.
        machine: The device; None = the first GPU, or the CPU if there is no GPU.
        other_data: Whether the graphs, targets and splits may differ from those of the
            run. If they differ, the parts of the two data sets need not be the same.

    Returns:
        The score, by the metric of the data set; NaN if it is undefined, for example
        because the metric needs two classes and the graphs have one.

    Raises:
        CheckpointError: If the network was trained for other features or another task
            than those of `dataset`, or on other data although `other_data` is False; or
            if the part has no graphs.
    """
    config, info = checkpoint.config, dataset.info
    _check_alike(checkpoint, dataset)
    if not other_data:
        _check_same(checkpoint, dataset)
    parts = choose_parts(dataset, config.data.protocol, config.data.fold)
    wanted = getattr(parts, part)
    if not wanted.numel():
        raise CheckpointError(f"{info.name} has no {part} graphs; give another part.")
    machine, network = machine or Machine(), checkpoint.network()
    network.save_memory(max_copies=machine.max_copies)
    info = replace(info, scaling=checkpoint.info.scaling)
    task = GraphTask(
        config, info, network, parts.batch_statistics, backend=machine.backend
    )
    subset, every = dataset.subset(wanted), torch.arange(wanted.numel())
    parts = Parts(every, every, every, parts.batch_statistics)
    data = GraphData(subset, parts, config.train, Clock(), task.extractor)
    with quiet_lightning(), matmul_precision(machine):
        trainer: Trainer = make_trainer(config, machine, [], Path())
        trainer.test(task, data, verbose=False)
    return task.scores["test"]


def _check_same(checkpoint: Checkpoint, dataset: Dataset) -> None:
    then = checkpoint.fingerprint
    if then is not None and then != (now := fingerprint(dataset)):
        raise CheckpointError(
            f"this network was trained on other data: the graphs, targets or splits of "
            f"{dataset.info.name} have the fingerprint {now}, not {then}; use the same "
            "data, or score these with --other-data."
        )


def _check_alike(checkpoint: Checkpoint, dataset: Dataset) -> None:
    names = ("task", "num_outputs", "node_features", "edge_features", "node_task")
    for name in names:
        then, now = (getattr(of.info, name) for of in (checkpoint, dataset))
        if then != now:
            raise CheckpointError(
                f"this network was trained on {checkpoint.info.name} with {name} "
                f"{then}, but here {name} is {now}; give a data set that matches."
            )

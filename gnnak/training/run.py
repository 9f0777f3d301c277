"""Train and test one network."""

import math
import time
from pathlib import Path

import torch
import yaml
from lightning.pytorch import Callback, Trainer
from rich.console import Console
from torch import Tensor, nn

from gnnak.datasets.own.molecules import find_featurizer
from gnnak.datasets.record import Dataset
from gnnak.errors import CheckpointError, TrainingError
from gnnak.graphs import GraphStore
from gnnak.graphs.readers.files import make_folder, write_bytes
from gnnak.models.network import Network
from gnnak.nn.features import CategoricalEncoder
from gnnak.training.callbacks import (
    STATE_KEY,
    ProgressLines,
    Recalibrate,
    RestoreSignals,
    RunHistory,
)
from gnnak.training.config.run_config import RunConfig
from gnnak.training.module import GraphTask
from gnnak.training.prepared import prepare, warn_of_memory
from gnnak.training.processes.locks import reserved
from gnnak.training.processes.machine import (
    Machine,
    make_trainer,
    matmul_precision,
    quiet_lightning,
)
from gnnak.training.processes.stopping import stoppable
from gnnak.training.processes.workers import watched
from gnnak.training.protocols import check_parts, choose_parts
from gnnak.training.records.checkpoint import Checkpoint, read_tensors
from gnnak.training.records.results import Record, environment, fingerprint, six_digits
from gnnak.training.timing import Clock, Timing


@torch.no_grad()
def fill_unseen(network: Network, store: GraphStore, train: Tensor) -> None:
    """Set the embeddings of unseen categories to the mean embedding of their column.

    The mean is weighted by the number of nodes, or edges, of each category in the
    training graphs. Columns without any training row stay unchanged. Changes the
    weights of the network in place.

    Args:
        network: The trained network.
        store: All graphs of the data set.
        train: Indices of the training graphs.
    """
    graphs = store.subset(train.to(store.device))
    for encoder, values in _encoders(network, graphs):
        if not isinstance(encoder, CategoricalEncoder) or values is None:
            continue
        table = encoder.tables.weight
        sizes, first = encoder.limit.tolist(), encoder.first.tolist()
        values = values.reshape(values.size(0), -1)
        for column, (start, size) in enumerate(zip(first, sizes, strict=True)):
            rows = table[start : start + size]
            counts = torch.bincount(values[:, column], minlength=size).to(rows)
            if counts.sum() > 0:
                mean = (counts / counts.sum()) @ rows
                rows[counts == 0] = mean


def _encoders(
    network: Network, graphs: GraphStore
) -> list[tuple[nn.Module, Tensor | None]]:
    """Return all encoders of a network, each with the features that it encodes."""
    encoders: list[tuple[nn.Module, Tensor | None]] = [(network.encoder, graphs.x)]
    for layer in network.layers:
        encoders += [
            (module, graphs.edge_attr)
            for module in layer.modules()
            if isinstance(module, CategoricalEncoder)
        ]
    return encoders


def last_checkpoint(
    folder: Path, resume: bool, name: str, data_hash: str
) -> Path | None:
    """Return the path of `last.ckpt`, to resume from; None if there is no such file.

    Args:
        folder: The folder of the run.
        resume: Whether the run may be resumed.
        name: The name of the data set.
        data_hash: The fingerprint of the data set.

    Raises:
        TrainingError: If the file exists but `resume` is False.
        CheckpointError: If the file is damaged, is not a checkpoint of a run, or is of
            a run on other data.
    """
    last = folder / "last.ckpt"
    if not last.exists():
        return None
    if not resume:
        raise TrainingError(
            f"{folder} holds an unfinished run; go on with --resume, or remove the "
            "folder to start over."
        )
    try:
        content = read_tensors(last)
        _, history = content["loops"], content["callbacks"][STATE_KEY]
        earlier = history.get("fingerprint")
    except (CheckpointError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{last} is damaged or not a checkpoint of a run; remove it to start over."
        ) from error
    if earlier not in (None, data_hash):
        raise CheckpointError(
            f"{last} was written on other data: the graphs, targets or splits of "
            f"{name} have the fingerprint {data_hash}, not {earlier}; use the same "
            "data, or remove the folder to start over."
        )
    return last


def run(
    config: RunConfig,
    dataset: Dataset,
    folder: Path,
    machine: Machine | None = None,
    resume: bool = False,
    console: Console | None = None,
) -> Record:
    """Train a network, then test it with the weights of its best validation epoch.

    Writes `config.yaml`, `metrics.csv`, `best.ckpt` and `last.ckpt` to `folder`. A
    stopped run can be resumed from `last.ckpt`. After storing the returned record, the
    caller should remove `last.ckpt`, to mark the run as finished.

    Args:
        config: The options of the run.
        dataset: The data set.
        folder: The folder for config, checkpoints and learning curves of this run.
        machine: Devices and processes; None = one device.
        resume: Whether to continue from `last.ckpt`, if there is one.
        console: The console that shows progress; None = no progress is shown.

    Returns:
        The record of the run, a dict of plain values. With several processes, every
        process returns the record.

    Raises:
        TrainingError: If `folder` has an unfinished run and `resume` is False, if
            another process runs in `folder`, if a part of the data set has too few
            graphs, if the loss is not finite, or if a process of the run is killed.
        CheckpointError: If `resume` is True and `last.ckpt` is damaged, or was written
            by a run on other data.
    """
    with reserved(folder):
        return run_reserved(config, dataset, folder, machine, resume, console)


def run_reserved(
    config: RunConfig,
    dataset: Dataset,
    folder: Path,
    machine: Machine | None = None,
    resume: bool = False,
    console: Console | None = None,
) -> Record:
    """Do the same as `run`, in a folder that the caller has reserved."""
    machine, began = machine or Machine(), time.monotonic()
    data_hash = fingerprint(dataset)
    last = last_checkpoint(folder, resume, config.data.name, data_hash)
    parts = choose_parts(dataset, config.data.protocol, config.data.fold)
    check_parts(dataset.info, parts, machine.devices * machine.num_nodes)
    clock = Clock()
    task, data, captured, degrees = prepare(config, dataset, parts, machine, clock)
    warn_of_memory(task, dataset.store.subset(parts.train), machine)
    history = RunHistory(folder, clock, config.train.early_stop, data_hash)
    callbacks: list[Callback] = [Timing(clock), history]
    if config.train.recalibrate:
        callbacks.append(Recalibrate())
    if console is not None:
        callbacks.append(ProgressLines(console, run_title(config), history))
    with quiet_lightning(), matmul_precision(machine), stoppable("go on with --resume"):
        callbacks.append(RestoreSignals())
        trainer = make_trainer(config, machine, callbacks, folder, captured)
        clock.device = trainer.strategy.root_device
        if trainer.is_global_zero:
            write_bytes(make_folder(folder) / "config.yaml", _as_yaml(config))
        start = time.monotonic() - began
        with watched(trainer):
            trainer.fit(task, data, ckpt_path=last)
            task.network.load_state_dict(history.best_weights)
            if task.info.own_data or find_featurizer(task.info) == "zinc":
                # All categories of ZINC's test graphs occur in its training graphs, so
                # its scores do not change.
                fill_unseen(task.network, dataset.store, parts.train)
            if parts.test.numel():
                trainer.test(task, data, verbose=False)
            else:
                task.scores["test"] = math.nan
                task.undefined["test"] = "there are no test graphs"
    record = _finish(config, dataset, trainer, task, history, degrees)
    record["seconds"]["start"] = six_digits(start)
    return record | {"fast": machine.fast, "captured": captured, "jobs": machine.jobs}


def run_title(config: RunConfig) -> str:
    """Return the title of a run for the progress display: `zinc gin-ak+ seed 0`."""
    data = config.data
    words = [data.name, data.target, config.model.name, f"seed {config.train.seed}"]
    if data.fold is not None:
        words.append(f"fold {data.fold}")
    return " ".join(word for word in words if word)


def _finish(
    config: RunConfig,
    dataset: Dataset,
    trainer: Trainer,
    task: GraphTask,
    history: RunHistory,
    degrees: tuple[int, ...] | None,
) -> Record:
    """Write `metrics.csv` and `best.ckpt` of a finished run, and return its record."""
    test = task.scores["test"]
    scores = {"validation": history.best, "test": test if math.isfinite(test) else None}
    if trainer.is_global_zero:
        history.write_curves()
        weights = {k: v.cpu() for k, v in task.network.state_dict().items()}
        data_hash = history.fingerprint
        best = Checkpoint(config, task.info, weights, scores, degrees, data_hash)
        best.save(history.folder / "best.ckpt")
    seconds = history.clock.seconds
    found = {"undefined": task.undefined} if task.undefined else {}
    if task.info.skipped:
        found["skipped"] = list(task.info.skipped)  # type: ignore[assignment]
    return (
        found
        | {
            "kind": "run",
            "config": config.to_dict(),
            "hash": config.hash(),
            "cell": config.cell(),
            "seed": config.train.seed,
            "fold": config.data.fold,
            "protocol": config.data.protocol,
            "metric": dataset.info.metric,
            "lower_is_better": dataset.info.lower_is_better,
            "scores": scores,
            "best_epoch": history.best_epoch,
            "epochs": history.epochs,
            "curves": {
                k: [six_digits(v) for v in c] for k, c in history.curves.items()
            },
            "seconds": {k: six_digits(s / history.epochs) for k, s in seconds.items()}
            | {"total": six_digits(sum(seconds.values()))},
            "peak_memory_mb": {
                k: round(v, 1) for k, v in history.clock.megabytes.items()
            },
            "parameters": sum(p.numel() for p in task.network.parameters()),
            "source": dataset.info.source,
            "fingerprint": history.fingerprint,
            "processes": trainer.world_size,
        }
        | environment(trainer.strategy.root_device)
    )


def _as_yaml(config: RunConfig) -> bytes:
    return yaml.safe_dump(config.to_dict(), sort_keys=False).encode()

"""Train and test one network; score a checkpoint."""

import math
import signal
import time
import warnings
from dataclasses import replace
from pathlib import Path

import torch
import yaml
from lightning.pytorch import Callback, Trainer
from rich.console import Console
from torch import Tensor, nn

from gnnak.datasets.describe import memory_advice, one_graph_advice, sampled_sizes
from gnnak.datasets.own.molecules import FEATURIZERS, find_featurizer
from gnnak.datasets.record import Dataset, DatasetInfo
from gnnak.errors import CheckpointError, OptionError, TrainingError
from gnnak.graphs import GraphStore
from gnnak.graphs.readers.files import make_folder, write_bytes
from gnnak.graphs.readers.npz import Part
from gnnak.models.factory import parse_name
from gnnak.models.network import Network
from gnnak.nn.features import CategoricalEncoder
from gnnak.training.callbacks import (
    STATE_KEY,
    ProgressLines,
    Recalibrate,
    RunHistory,
    StopAtStep,
)
from gnnak.training.config.experiment import list_options, other_options, stopped_config
from gnnak.training.config.run_config import Precision, RunConfig
from gnnak.training.data import (
    GraphData,
    NodeData,
    has_fixed_subgraphs,
    is_full_batch,
)
from gnnak.training.evaluation import Evaluation, with_metric
from gnnak.training.losses import with_scaling
from gnnak.training.module import GraphTask, build_network
from gnnak.training.processes.locks import reserved
from gnnak.training.processes.machine import (
    Machine,
    make_trainer,
    matmul_precision,
    quiet_lightning,
)
from gnnak.training.processes.stopping import Stopped, StopRequest, stoppable
from gnnak.training.processes.workers import watched
from gnnak.training.protocols import Parts, check_parts, choose_parts
from gnnak.training.records.checkpoint import Checkpoint, read_tensors
from gnnak.training.records.results import Record, environment, fingerprint, six_digits
from gnnak.training.timing import Clock, Timing


@torch.no_grad()
def fill_unseen(network: Network, graphs: GraphStore) -> None:
    """Embed categories that do not occur in `graphs` as the mean of those that do."""
    encoders: list[tuple[nn.Module, Tensor | None]] = [(network.encoder, graphs.x)]
    encoders += [(each, graphs.edge_attr) for each in network.layers.modules()]
    for encoder, values in encoders:
        if not isinstance(encoder, CategoricalEncoder) or values is None:
            continue
        table = encoder.tables.weight
        sizes, first = encoder.limit.tolist(), encoder.first.tolist()
        values = values.reshape(values.size(0), -1)
        for column, (start, size) in enumerate(zip(first, sizes, strict=True)):
            rows = table[start : start + size]
            counts = torch.bincount(values[:, column], minlength=size).to(rows)
            if counts.sum() > 0:
                rows[counts == 0] = (counts / counts.sum()) @ rows


def _fills_unseen(info: DatasetInfo) -> bool:
    featurizer = find_featurizer(info)
    return info.own_data or (
        featurizer is not None and FEATURIZERS[featurizer].fill_unseen
    )


def last_checkpoint(
    folder: Path, resume: bool, name: str, data_hash: str
) -> Path | None:
    """Return the path of `last.ckpt`, None if missing; raise an error if unusable."""
    last = folder / "last.ckpt"
    if not last.exists():
        return None
    if not resume:
        raise TrainingError(
            f"{folder} holds an unfinished run; go on with --resume (resume=True), "
            "or remove the folder to start over."
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


IDENTIFIES_DATA = (
    "data.name",
    *(f"data.own.{name}" for name in ("path", "labels", "validation", "test")),
)
"""Options with the name and paths of the data. They may change before a run is resumed,
if the data stay the same."""


def check_options(config: RunConfig, folder: Path) -> None:
    """Raise `CheckpointError` if the run in a folder was stopped with other options."""
    stopped = stopped_config(folder) or config
    if other := other_options(config, stopped, IDENTIFIES_DATA):
        raise CheckpointError(
            f"the run in {folder} was stopped with {list_options(other)}; give the "
            "same options, or remove the folder to start over."
        )


def run(
    config: RunConfig,
    dataset: Dataset,
    folder: Path,
    machine: Machine | None = None,
    resume: bool = False,
    console: Console | None = None,
) -> Record:
    """Train a network, then test it with the weights of its best validation epoch.

    With `resume`, a stopped run continues from `last.ckpt` in `folder`. After storing
    the record, the caller should remove `last.ckpt`. Every process returns the record.
    Ctrl-C raises `KeyboardInterrupt`, and SIGTERM raises `Stopped`, both after writing
    `last.ckpt`.
    """
    try:
        with reserved(folder):
            return run_reserved(config, dataset, folder, machine, resume, console)
    except Stopped as stopped:
        if stopped.number == signal.SIGINT:
            raise KeyboardInterrupt from None
        raise


def run_reserved(
    config: RunConfig,
    dataset: Dataset,
    folder: Path,
    machine: Machine | None = None,
    resume: bool = False,
    console: Console | None = None,
) -> Record:
    """Do the work of `run`; the caller must have locked `folder` with `reserved`."""
    machine, began = machine or Machine(), time.monotonic()
    data_hash = fingerprint(dataset)
    if resume and (folder / "last.ckpt").exists():
        check_options(config, folder)
    last = last_checkpoint(folder, resume, config.data.name, data_hash)
    parts = choose_parts(dataset, config.data.protocol, config.data.fold)
    check_parts(dataset.info, parts, machine.devices * machine.num_nodes)
    clock = Clock()
    task, data, captured, degrees = prepare(config, dataset, parts, machine, clock)
    warn_of_memory(task, dataset, parts, machine)
    warn_of_precision(config.train.precision, machine)
    history = RunHistory(folder, clock, config.train.early_stop, data_hash)
    with (
        quiet_lightning(),
        matmul_precision(machine),
        stoppable("go on with --resume") as request,
    ):
        callbacks = _callbacks(config, history, request, console)
        trainer = make_trainer(config, machine, callbacks, folder, captured)
        clock.device = trainer.strategy.root_device
        if trainer.is_global_zero:
            text = yaml.safe_dump(config.to_dict(), sort_keys=False)
            write_bytes(make_folder(folder) / "config.yaml", text.encode())
        start = time.monotonic() - began
        with watched(trainer):
            trainer.fit(task, data, ckpt_path=last)
            task.scored.load_state_dict(history.best_weights)
            if _fills_unseen(task.info):
                fill_unseen(task.scored, dataset.graphs_of(parts.train))
            untested = "there are no test graphs"
            test = Evaluation(task.info.metric, math.nan, {}, 0, untested)
            if count := parts.test.numel():
                trainer.test(task, data, verbose=False)
                test = Evaluation.of(task.metric, task.info, count, "test")
    record = _record(task, history, start, test) | {
        "processes": trainer.world_size,
        "fast": machine.fast,
        "captured": captured,
        "jobs": machine.jobs,
        **environment(clock.device),
    }
    if trainer.is_global_zero:
        history.write_curves()
        weights = {k: v.cpu() for k, v in task.scored.state_dict().items()}
        scores = record["scores"]
        best = Checkpoint(config, task.info, weights, scores, degrees, data_hash)
        best.save(folder / "best.ckpt")
    return record


def _callbacks(
    config: RunConfig,
    history: RunHistory,
    request: StopRequest,
    console: Console | None,
) -> list[Callback]:
    stop = StopAtStep(request, history)
    callbacks: list[Callback] = [Timing(history.clock), history, stop]
    if config.train.recalibrate:
        callbacks.append(Recalibrate(stop.on_train_batch_end))
    if console is not None:
        callbacks.append(ProgressLines(console, run_title(config), history))
    return callbacks


def prepare(
    config: RunConfig, dataset: Dataset, parts: Parts, machine: Machine, clock: Clock
) -> tuple[GraphTask, GraphData, bool, tuple[int, ...] | None]:
    """Return task, data module, whether steps are captured, and degrees for `pna`."""
    torch.manual_seed(config.train.seed)
    degrees = training_degrees(config, dataset, parts)
    info = with_scaling(dataset, parts.train)
    network = build_network(config, info, degrees)
    network.save_memory(machine.recompute, machine.max_copies)
    captured = _captures(config, network, dataset, parts, machine)
    task = GraphTask(
        config,
        info,
        network,
        batch_statistics=parts.batch_statistics,
        capture=captured,
        backend=machine.backend,
    )
    data = make_data(config, dataset, parts, network, clock, captured)
    return task, data, captured, degrees


def make_data(
    config: RunConfig,
    dataset: Dataset,
    parts: Parts,
    network: Network,
    clock: Clock,
    captured: bool = False,
) -> GraphData:
    if dataset.info.one_graph:
        return NodeData(dataset, parts, config, network, clock, captured)
    if config.train.num_neighbors:
        raise OptionError(
            "train.num_neighbors is for one graph whose nodes are split, but "
            f"{dataset.info.name} has many; leave it out."
        )
    return GraphData(dataset, parts, config, network, clock, captured)


def warn_of_memory(
    task: GraphTask, dataset: Dataset, parts: Parts, machine: Machine
) -> None:
    """Warn if a training step in plain PyTorch needs more memory than is free."""
    model, network, extractor = task.config.model, task.network, task.network.extractor
    saves = machine.recompute or machine.max_copies is not None
    fused = machine.is_gpu and machine.fast
    if extractor is None or network.drop is not None or saves or fused:
        return
    widths = model.num_layers, model.channels, model.hop_channels
    batch_size = task.config.train.batch_size or parts.train.numel()
    batch_size = min(batch_size, parts.train.numel())
    if dataset.info.one_graph:
        if batch_size < parts.train.numel():
            return
        device = machine.device
        advice = one_graph_advice(dataset.store, extractor, device, *widths)
    else:
        sizes = sampled_sizes(dataset.store.subset(parts.train), extractor)
        if sizes is None:
            return
        needed = sizes.training_bytes(batch_size, *widths)
        advice = memory_advice(needed, batch_size, machine.device)
    if advice is not None:
        warnings.warn(advice, stacklevel=2)


def warn_of_precision(precision: Precision, machine: Machine) -> None:
    """Warn if a run is slower in half precision than in float32, and say why."""
    reason = None
    if precision == "bf16" and not machine.is_gpu:
        reason = "on a CPU, fast layers need full precision"
    elif precision == "bf16":
        if not torch.cuda.is_bf16_supported(including_emulation=False):
            reason = "this GPU has no arithmetic in bfloat16"
    elif precision == "16" and machine.is_gpu:
        reason = "fused layers and captured steps need 32 or bf16"
    if reason is not None:
        what = f"train.precision={precision}"
        warnings.warn(f"{what} is slower than 32 here: {reason}.", stacklevel=2)


def is_captured(
    config: RunConfig, dataset: Dataset, parts: Parts, machine: Machine
) -> bool:
    with torch.random.fork_rng(devices=[]):
        degrees = training_degrees(config, dataset, parts)
        network = build_network(config, dataset.info, degrees)
    return _captures(config, network, dataset, parts, machine)


def _captures(
    config: RunConfig,
    network: Network,
    dataset: Dataset,
    parts: Parts,
    machine: Machine,
) -> bool:
    if dataset.info.one_graph and not (
        is_full_batch(config.train, parts.train) and has_fixed_subgraphs(network)
    ):
        return False
    return machine.captures(network, config.train.precision)


def training_degrees(
    config: RunConfig, dataset: Dataset, parts: Parts
) -> tuple[int, ...] | None:
    """Count the training nodes by in-degree, for `pna`; None for other base GNNs."""
    if not parse_name(config.model.name).needs_degrees:
        return None
    batch = dataset.graphs_of(parts.train).union()
    degree = torch.bincount(batch.edge_index[1], minlength=batch.num_nodes)
    return tuple(torch.bincount(degree).tolist())


def run_title(config: RunConfig) -> str:
    data = config.data
    words = [data.name, data.target, config.model.name, f"seed {config.train.seed}"]
    if data.fold is not None:
        words.append(f"fold {data.fold}")
    return " ".join(word for word in words if word)


def _record(
    task: GraphTask, history: RunHistory, start: float, test: Evaluation
) -> Record:
    config, info, clock = task.config, task.info, history.clock
    return {
        "kind": "run",
        "key": history.key,
        "config": config.to_dict(),
        "hash": config.hash(),
        "cell": config.cell(),
        "seed": config.train.seed,
        "fold": config.data.fold,
        "protocol": config.data.protocol,
        "metric": info.metric,
        "lower_is_better": info.lower_is_better,
        "scores": {
            "validation": history.best,
            "test": None if test.undefined else test.score,
        },
        "best_epoch": history.best_epoch,
        "epochs": history.epochs,
        "curves": {k: [six_digits(v) for v in c] for k, c in history.curves.items()},
        "seconds": {
            **{k: six_digits(s / history.epochs) for k, s in clock.seconds.items()},
            "total": six_digits(sum(clock.seconds.values())),
            "start": six_digits(start),
        },
        "peak_memory_mb": {k: round(v, 1) for k, v in clock.megabytes.items()},
        "parameters": sum(p.numel() for p in task.network.parameters()),
        "source": info.source,
        "fingerprint": history.fingerprint,
        **_by_target(info, test),
        **({"undefined": {"test": test.undefined}} if test.undefined else {}),
        **({"skipped": list(info.skipped)} if info.skipped else {}),
    }


def _by_target(info: DatasetInfo, test: Evaluation) -> Record:
    """Return the test error of each target, if there are several; None if undefined."""
    if info.task != "regression" or not test.by_target:
        return {}
    found = test.as_dict()["by_target"].items()
    return {"by_target": {k: None if v is None else six_digits(v) for k, v in found}}


def evaluate(
    checkpoint: Checkpoint,
    dataset: Dataset,
    part: Part = "test",
    machine: Machine | None = None,
    other_data: bool = False,
    metric: str | None = None,
) -> Evaluation:
    """Score a network on a part of a data set; the default metric is the data set's."""
    config, info = checkpoint.config, dataset.info
    _check_data(checkpoint, dataset, other_data)
    parts = choose_parts(dataset, config.data.protocol, config.data.fold)
    wanted = getattr(parts, part)
    if not wanted.numel():
        what = "nodes" if info.one_graph else "graphs"
        raise CheckpointError(f"{info.name} has no {part} {what}; give another part.")
    machine, network = machine or Machine(), checkpoint.network()
    network.save_memory(max_copies=machine.max_copies)
    info = with_metric(replace(info, scaling=checkpoint.info.scaling), metric)
    task = GraphTask(
        config, info, network, parts.batch_statistics, backend=machine.backend
    )
    scored, where = dataset, wanted
    if not info.one_graph:
        scored, where = dataset.subset(wanted), torch.arange(wanted.numel())
    parts = Parts(where, where, where, parts.batch_statistics)
    data = make_data(config, scored, parts, network, Clock())
    with quiet_lightning(), matmul_precision(machine):
        trainer: Trainer = make_trainer(config, machine, [], Path())
        trainer.test(task, data, verbose=False)
    return Evaluation.of(task.metric, info, len(scored.targets_of(where)), part)


def _check_data(checkpoint: Checkpoint, dataset: Dataset, other_data: bool) -> None:
    features, tasks = ("node_features", "edge_features"), ("node_task", "one_graph")
    for name in ("task", "num_outputs", *features, *tasks):
        then, now = (getattr(of.info, name) for of in (checkpoint, dataset))
        if then != now:
            raise CheckpointError(
                f"this network was trained on {checkpoint.info.name} with {name} "
                f"{then}, but here {name} is {now}; give a data set that matches."
            )
    then = None if other_data else checkpoint.fingerprint
    if then is not None and then != (now := fingerprint(dataset)):
        raise CheckpointError(
            f"this network was trained on other data: the graphs, targets or splits of "
            f"{dataset.info.name} have the fingerprint {now}, not {then}; use the same "
            "data, or score these with --other-data."
        )

"""`gnnak.train`: train a network on the user's own data."""

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Never

from rich.console import Console

from gnnak.datasets.own import OwnData, load_own
from gnnak.datasets.own.options import as_names, as_path, as_text
from gnnak.datasets.own.read import is_one_graph
from gnnak.errors import OptionError, kind_of
from gnnak.models.factory import normal_name
from gnnak.training.config.experiment import own_config
from gnnak.training.launch import LAST, tell_data, warn_of_unused
from gnnak.training.processes.machine import Machine
from gnnak.training.processes.stopping import Stopped
from gnnak.training.protocols import num_folds
from gnnak.training.records.results import Record
from gnnak.training.run import run
from gnnak.training.trained import TrainedModel, load
from gnnak.typing import check_known


class Trained(NamedTuple):
    """The result of `gnnak.train`."""

    model: TrainedModel
    """The trained model, with the weights of the best validation epoch, on the CPU."""
    record: Record
    """Options, scores and times of the run, as a dict that can be written as JSON."""


def train(
    data: Any,
    y: Any = None,
    *,
    model: str = "gin-ak+",
    smiles: str | None = None,
    target: str | Sequence[str] | None = None,
    task: str | None = None,
    metric: str | None = None,
    split: Any = None,
    folds: int | None = None,
    fold: int | None = None,
    validation: str | os.PathLike[str] | None = None,
    test: str | os.PathLike[str] | None = None,
    labels: str | os.PathLike[str] | None = None,
    node_attr: str | Sequence[str] | None = None,
    edge_attr: str | Sequence[str] | None = None,
    skip_bad: bool = False,
    graphs: int | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    channels: int | None = None,
    num_layers: int | None = None,
    num_hops: int | None = None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    folder: str | os.PathLike[str] | None = None,
    machine: Machine | None = None,
    resume: bool = False,
    progress: bool = True,
    **_unknown: Never,
) -> Trained:
    """Train a network on your own graphs, and test it.

    If `data` is one graph with a target for every node, its nodes are split. If the
    graph has masks `train_mask`, `val_mask` and `test_mask`, they are the split. For
    one graph, some options have other defaults; see docs/large-graph.md.

    Args:
        data: Path of a table of molecules (`.csv`, `.tsv`, `.parquet`, `.smi`), of
            graphs (`.npz`, `.g6`, `.json`, `.jsonl`, `.pt`, `.edges`) or of a folder of
            such files; or a list of SMILES strings, PyG `Data` or networkx graphs; or a
            `GraphStore`; or one PyG `Data` or networkx graph with a target for every
            node. A column of a pandas frame counts as a list. Text files may be
            compressed (`.gz`).
        y: Targets, one row per graph, [g] or [g, targets]. NaN marks unknown targets.
            The rows of a pandas frame belong to the graphs by position, and its columns
            name the targets. If None, the targets are read from `data`.
        model: Name of the model, such as `gin-ak+`, or `package.module:Class-ak+` for
            a base GNN of your own; see `gnnak.models.build_model`.
        smiles: Column with SMILES strings; if None, the column named `smiles`.
        target: Column or columns to predict, or attributes of networkx graphs or nodes;
            if None, the only column with numbers, or `y` of the graphs.
        task: `regression`, `classification` or `multilabel`; if None, the targets
            decide.
        metric: Name of the metric; if None, mae, accuracy or roc-auc, as fits the task.
        split: `random` (80 : 10 : 10), `scaffold`, `column:NAME`, `files`, or one
            number per graph: 0 train, 1 validation, 2 test. If the data are one graph,
            one number per node, with -1 for unused nodes. If None, the split or the
            masks that the data have; if they have none, `random`.
        folds: Number of cross-validation folds; `fold` then chooses the test fold.
        fold: Number of the test fold, from 0. If the data are one graph with several
            splits, number of the split.
        validation: With split `files`: file with validation graphs.
        test: With split `files`: file with test graphs.
        labels: Table with the targets of graphs, one row per graph.
        node_attr: Node attributes that are the features; if None, `x`.
        edge_attr: Edge attributes that are the features; if None, `edge_attr`.
        skip_bad: Whether to leave out unusable rows instead of raising an error.
        graphs: Number of graphs to use, from the start of the data; if None, all.
        epochs: Maximum number of passes over the training graphs; default 60.
        batch_size: Graphs per training step; default 32. If the data are one graph,
            training nodes per training step; default all.
        learning_rate: Learning rate of Adam; default 0.001.
        channels: Width of the node states; default 64.
        num_layers: Number of layers; default 3.
        num_hops: Radius k of the egonets of the model; default 3.
        seed: Seed of the split, the weights and the batches.
        settings: Any other options by name, such as `{"train.clip": 1.0}`, or by short
            name, such as `{"clip": 1.0}`.
        folder: Folder for checkpoints and learning curves; if None, nothing is stored.
        machine: Devices and processes; if None, a GPU if there is one, else the CPU.
        resume: Whether to continue an unfinished run in `folder`.
        progress: Whether to show the progress.

    Returns:
        The trained model and the record of the run, `model, record = gnnak.train(...)`.

    Raises:
        GnnakError: If the data or the options are wrong.
    """
    for name in _unknown:
        check_known("option", name, list(signature(train).parameters)[:-1])
    _check_types(settings, machine)
    if resume and folder is None:
        raise OptionError(
            "resume is True, but folder is None; give the folder of the stopped run."
        )
    own = OwnData(
        as_text(data) if isinstance(data, str | os.PathLike) else None,
        smiles,
        as_names(target),
        as_path("labels", labels),
        task,
        metric,
        split if isinstance(split, str) else None,
        as_text(validation),
        as_text(test),
        folds,
        skip_bad,
        as_names(node_attr),
        as_names(edge_attr),
        graphs,
    )
    given = None if split is None or isinstance(split, str) else split
    named = {
        "model": normal_name(model),
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "channels": channels,
        "num_layers": num_layers,
        "num_hops": num_hops,
    }
    options: dict[str, Any] = {k: v for k, v in named.items() if v is not None}
    options |= dict(settings or {})
    config = own_config(own, seed, options, fold, is_one_graph(data))
    own = config.data.own
    found = load_own(own, data, y, config.data.seed, given)
    console = Console(stderr=True) if progress else None
    if console is not None:
        tell_data(found.dataset, own.task, console)
    else:
        warn_of_unused(found.dataset, own)
    dataset = found.dataset
    protocol = dataset.info.protocols[0]
    if num_folds(dataset, protocol) and config.data.fold is None:
        of = "split" if dataset.info.one_graph else "fold that is the test part"
        raise OptionError(f"give fold, the number of the {of}.")
    data_config = replace(config.data, own=found.own, protocol=protocol)
    config = replace(config, data=data_config)
    where = TemporaryDirectory() if folder is None else nullcontext(os.fspath(folder))
    with where as place:
        if resume and not Path(place, LAST).exists():
            told = f"a new run begins: {place} holds no run that was stopped."
            logging.getLogger("gnnak").warning(told)
        try:
            record = run(config, dataset, Path(place), machine, resume, console)
        except Stopped as stopped:
            advice = "" if folder is None else "go on with resume=True"
            raise Stopped(stopped.number, advice) from None
        Path(place, LAST).unlink(missing_ok=True)
        record = {"experiment": config.data.name} | record
        return Trained(load(Path(place, "best.ckpt")), record)


def _check_types(settings: object, machine: object) -> None:
    if settings is not None and not isinstance(settings, Mapping):
        raise OptionError(
            f"settings is {kind_of(settings)}; give a dict, such as "
            "{'train.clip': 1.0}."
        )
    if machine is not None and not isinstance(machine, Machine):
        raise OptionError(
            f"machine is {kind_of(machine)}; give a Machine of "
            "gnnak.training.processes.machine, such as Machine('cpu')."
        )

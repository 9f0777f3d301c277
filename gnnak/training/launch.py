"""Run all configs and folds of an experiment, and record each run in `runs.jsonl`."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path

import torch
from lightning.fabric.utilities.rank_zero import rank_zero_only
from rich.console import Console

from gnnak.datasets import load_dataset
from gnnak.datasets.own import OwnData, load_own
from gnnak.datasets.own.targets import AS_CLASSES, are_like_classes
from gnnak.datasets.record import Dataset
from gnnak.errors import FileFormatError, OptionError, TrainingError, counted
from gnnak.training.config.experiment import list_options, other_options, stopped_config
from gnnak.training.config.options import change
from gnnak.training.config.run_config import PER_RUN, RunConfig
from gnnak.training.processes.locks import is_reserved, reserved
from gnnak.training.processes.machine import Machine
from gnnak.training.processes.stopping import stoppable
from gnnak.training.protocols import num_folds
from gnnak.training.records.results import (
    Record,
    append_record,
    check_appendable,
    read_records,
)
from gnnak.training.run import run_reserved

LAST = "last.ckpt"
"""File name of the checkpoint from which a stopped run is resumed."""
RESULTS = Path("results")
"""Default folder for the records of runs on data sets of gnnak."""


@dataclass(frozen=True)
class Places:
    """The folders from which data are read and to which results are written."""

    data: Path | None = None
    """Folder of the data sets; if None, $GNNAK_DATA or else the cache folder."""
    runs: Path = Path("runs")
    """Folder with one subfolder per run: config, learning curves and checkpoints."""
    results: Path = RESULTS
    """Folder of `runs.jsonl`, with the records of all runs."""
    earlier: Path | None = None
    """Another folder in which older versions stored records; None if there is none."""

    @classmethod
    def of_run(
        cls, config: RunConfig, data: Path | None, runs: Path, results: Path | None
    ) -> Places:
        """Return a run's folders; for own data, the default of `results` is `runs`."""
        if results is None and config.data.own.path is not None:
            return cls(data, runs, runs, earlier=RESULTS)
        return cls(data, runs, results or RESULTS)

    def of(self, config: RunConfig, experiment: str) -> Path:
        """Return the folder of a run, named by experiment, target, model and hash."""
        model = config.model.name.replace("*", "star").replace(":", ".")
        words = [experiment, config.data.target, model, config.hash()]
        return self.runs / "-".join(word for word in words if word)

    def with_data_folder(self) -> Places:
        """Name the folder of $GNNAK_DATA, which other machines may not have set."""
        data = self.data or os.environ.get("GNNAK_DATA")
        return replace(self, data=Path(data)) if data else self

    @property
    def records(self) -> Path:
        return self.results / "runs.jsonl"

    @property
    def all_results(self) -> list[Path]:
        """The folders in which runs may have records, oldest records first."""
        return [each for each in (self.earlier, self.results) if each is not None]


def find_dataset(config: RunConfig, places: Places) -> Dataset:
    """Load the data of a run, with at most `config.data.own.graphs` graphs."""
    data = config.data
    if data.own.path is not None:
        return load_own(data.own, seed=data.seed).dataset
    if data.own != replace(OwnData(), graphs=data.own.graphs):
        raise OptionError(
            f"{data.name} were graphs of a Python list, which cannot be loaded again; "
            "give them to the method predict of gnnak.load(checkpoint)."
        )
    dataset = load_dataset(
        data.name, target=data.target, seed=data.seed, data_dir=places.data
    )
    size, wanted = len(dataset.store), data.own.graphs
    if wanted is None or wanted >= size:
        return dataset
    return dataset.subset(torch.linspace(0, size - 1, wanted).round().long())


@rank_zero_only
def tell_data(dataset: Dataset, task: str | None, console: Console) -> None:
    """Print a summary of the user's own data: graphs, targets, features, split, ..."""
    info, kind = dataset.info, "molecules" if dataset.info.featurizer else "graphs"
    size = f"{len(dataset.store)} {kind}"
    if info.one_graph:
        size, kind = f"1 graph of {int(dataset.store.num_nodes)} nodes", "nodes"
    classes = f" ({len(info.classes)} classes)" if info.classes else ""
    targets = ", ".join(info.targets[:5]) + (", ..." if len(info.targets) > 5 else "")
    console.print(
        f"{info.source}: {size}, {info.task} of "
        f"{targets}{classes}, metric {info.metric}",
        markup=False,
    )
    y, told = dataset.store.y, task is None and info.task == "regression"
    if told and y is not None and y.dim() == 1 and are_like_classes(y):
        hint = f"  {targets} has small whole numbers; {AS_CLASSES}"
        console.print(hint, markup=False, soft_wrap=True)
    if dataset.split is not None:
        split = dataset.split if dataset.split.dim() == 1 else dataset.split[0]
        counts = split[split >= 0].bincount(minlength=3).tolist()
        names = ("training", "validation", "test")
        sizes = [f"{n or 'no'} {name}" for n, name in zip(counts, names, strict=True)]
        untested = "" if counts[2] else "; the network is not tested"
        console.print(f"  {', '.join(sizes)} {kind}{untested}", markup=False)
    if dataset.features is not None:
        line = f"  {dataset.features.line(bool(info.featurizer))}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for row in info.skipped:
        console.print(f"  left out {row}", markup=False)
    _warn_of_one_way(dataset)


@rank_zero_only
def warn_of_unused(dataset: Dataset, own: OwnData) -> None:
    """Warn about ignored attributes, and about edges that have only one direction."""
    use, chosen = dataset.features, own.node_attr or own.edge_attr
    if use is not None and (use.unused_nodes or use.unused_edges) and not chosen:
        logging.getLogger("gnnak").warning(use.line())
    _warn_of_one_way(dataset)


def _warn_of_one_way(dataset: Dataset) -> None:
    if dataset.one_way:
        warnings.warn(
            f"every edge of {dataset.info.source} comes in one direction only, and is "
            "taken as directed; if edges have no direction, add the other with PyG: "
            "data = torch_geometric.transforms.ToUndirected()(data).",
            stacklevel=2,
        )


def folds_of(config: RunConfig, dataset: Dataset) -> list[RunConfig]:
    """Return a config per fold; only `config` if it sets a fold or no folds exist."""
    count = num_folds(dataset, config.data.protocol)
    if config.data.fold is not None or not count:
        return [config]
    return [change(config, {"data.fold": fold}) for fold in range(count)]


def run_experiment(
    configs: Sequence[RunConfig],
    experiment: str,
    places: Places,
    machine: Machine | None = None,
    resume: bool = False,
    console: Console | None = None,
    compare: bool = True,
    train: Callable[..., Record] = run_reserved,
) -> list[Record]:
    """Train one run per config and fold, and append each record to `runs.jsonl`.

    Without `resume`, an unfinished run raises `TrainingError`. With `resume`,
    unfinished runs continue, and recorded runs are skipped. If `compare` is also set,
    `TrainingError` is raised for a config that is new while a run with other options is
    unfinished. `train` does a single run. Every process returns all records.
    """
    for config in configs:
        config.check_family()
    check_appendable(places.records)
    finished = _finished(places.records, experiment) if resume else {}
    several = machine is not None and machine.devices * machine.num_nodes > 1
    records, trained = [], 0
    for config in configs:
        dataset = find_dataset(config, places)
        if dataset.info.own_data:
            config = change(config, {"data.protocol": dataset.info.protocols[0]})
            if console is not None:
                tell_data(dataset, config.data.own.task, console)
        folds = folds_of(config, dataset)
        if resume and compare and not any(each.hash() in finished for each in folds):
            _compare(folds, experiment, places, console)
        for each in folds:
            folder = places.of(each, experiment)
            record = _done(each, folder, finished)
            if record is None:
                with reserved(folder), stoppable("go on with --resume"):
                    if resume and not several:
                        # Another process may have ended this run in the meantime.
                        finished = _finished(places.records, experiment)
                        record = _done(each, folder, finished)
                    if record is None:
                        record = {"experiment": experiment} | train(
                            each, dataset, folder, machine, resume, console
                        )
                        _append(record, places.records, folder / LAST)
                        trained += 1
            records.append(record)
    earlier = len(records) - trained
    if earlier and console is not None:
        told = (
            f"{earlier} of {counted(len(records), 'run')} ended earlier: not trained "
            "again; leave out --resume to start anew."
        )
        rank_zero_only(console.print)(told, markup=False, soft_wrap=True)
    return records


def _compare(
    folds: Sequence[RunConfig], experiment: str, places: Places, console: Console | None
) -> None:
    """Raise `TrainingError` if `--resume` finds only runs with other options."""
    if any((places.of(each, experiment) / LAST).exists() for each in folds):
        return
    found, ignored = [], () if len(folds) == 1 else ("data.fold",)
    for folder in places.runs.glob(f"{escape(experiment)}-*"):
        stopped = stopped_config(folder) if (folder / LAST).exists() else None
        if stopped and stopped.data.name == folds[0].data.name:
            other = other_options(folds[0], stopped, ignored)
            if other and not is_reserved(folder):
                differs = not other.keys() <= {*PER_RUN}
                found.append((differs, len(other), folder, other))
    told = "no run was stopped"
    if found:
        differs, _, folder, other = min(found, key=lambda each: each[:2])
        told = f"the run in {folder} was stopped with {list_options(other)}"
        if differs:
            raise TrainingError(
                f"no run with these options was stopped: {told}; give its options to "
                "go on with it, or leave out --resume to start a new run."
            )
    if console is not None:
        told = f"a new run begins: {told}"
        rank_zero_only(console.print)(told, markup=False, soft_wrap=True)


def _done(
    config: RunConfig, folder: Path, finished: Mapping[str, Record]
) -> Record | None:
    """Return a run's record; None if it has none, or if `folder` has a `last.ckpt`."""
    return None if (folder / LAST).exists() else finished.get(config.hash())


def _finished(path: Path, experiment: str) -> dict[str, Record]:
    return {
        record["hash"]: record
        for record in read_records(path)
        if record.get("kind") == "run" and record.get("experiment") == experiment
    }


@rank_zero_only
def _append(record: Record, path: Path, last: Path) -> None:
    try:
        append_record(path, record)
    except FileFormatError as error:
        told = str(error).rstrip(".")
        raise TrainingError(f"{told}, then go on with --resume.") from error
    last.unlink(missing_ok=True)

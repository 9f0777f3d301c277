"""The runs of an experiment: data found, folds counted, records written."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lightning.fabric.utilities.rank_zero import rank_zero_only
from rich.console import Console

from gnnak.datasets import load_dataset
from gnnak.datasets.record import Dataset
from gnnak.errors import FileFormatError, TrainingError
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.processes.machine import Machine
from gnnak.training.protocols import num_folds
from gnnak.training.records.results import (
    Record,
    append_record,
    check_appendable,
    read_records,
)
from gnnak.training.run import run


@dataclass(frozen=True)
class Places:
    """Where things are read and written."""

    data: Path | None = None
    """Data sets; None = GNNAK_DATA, then the cache."""
    runs: Path = Path("runs")
    """A folder for each run: config, curves, checkpoints."""
    results: Path = Path("results")
    """Records: `runs.jsonl`."""

    def of(self, config: RunConfig, experiment: str) -> Path:
        """The folder of one run."""
        model = config.model.name.replace("*", "star")
        words = [experiment, config.data.target, model, config.hash()]
        return self.runs / "-".join(word for word in words if word)

    @property
    def records(self) -> Path:
        """The file that records of runs are appended to."""
        return self.results / "runs.jsonl"


def find_dataset(config: RunConfig, places: Places) -> Dataset:
    """The data set of a run."""
    data = config.data
    return load_dataset(
        data.name, target=data.target, seed=data.seed, data_dir=places.data
    )


def folds_of(config: RunConfig, dataset: Dataset) -> list[RunConfig]:
    """One config for each fold of the protocol, or the config itself.

    A config that names its fold is one run.
    """
    count = num_folds(dataset, config.data.protocol)
    if config.data.fold is not None or not count:
        return [config]
    return [change(config, {"data.fold": fold}) for fold in range(count)]


def run_experiment(
    configs: Sequence[RunConfig],
    experiment: str,
    places: Places | None = None,
    machine: Machine | None = None,
    resume: bool = False,
    console: Console | None = None,
) -> list[Record]:
    """Run configs of one data set, one after the other, and append their records.

    Args:
        configs: The runs; those that name no fold are run in all folds.
        experiment: The name that records carry.
        places: Where data, runs and results are.
        machine: Devices and processes.
        resume: Go on with runs that were not finished; those that were, by the
            records, are not run again.
        console: Where progress is shown; None = nowhere.

    Returns:
        Their records, in every process.
    """
    places = places or Places()
    check_appendable(places.records)
    finished = _finished(places.records, experiment) if resume else {}
    records = []
    for config in configs:
        dataset = find_dataset(config, places)
        for each in folds_of(config, dataset):
            folder = places.of(each, experiment)
            if each.hash() in finished and not (folder / "last.ckpt").exists():
                records.append(finished[each.hash()])
                continue
            record = run(each, dataset, folder, machine, resume, console)
            record = {"experiment": experiment} | record
            _write_down(record, places.records, folder / "last.ckpt")
            records.append(record)
    return records


def _finished(path: Path, experiment: str) -> dict[str, Record]:
    """The newest record of each config, by its hash."""
    return {
        record["hash"]: record
        for record in read_records(path)
        if record.get("kind") == "run" and record.get("experiment") == experiment
    }


@rank_zero_only
def _write_down(record: Record, path: Path, last: Path) -> None:
    """Append the record; only then is the unfinished run forgotten."""
    try:
        append_record(path, record)
    except FileFormatError as error:
        told = str(error).rstrip(".")
        raise TrainingError(f"{told}, then go on with --resume.") from error
    last.unlink(missing_ok=True)

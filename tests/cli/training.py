"""Run commands of `gnnak`, also training with a small network, in seconds."""

from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner
from typer.testing import Result as CliResult

from gnnak.cli.program import app
from gnnak.training.config.run_config import RunConfig
from gnnak.training.records.results import read_records
from gnnak.training.schedule.pool import Result
from gnnak.training.schedule.schedule import Schedule
from tests.report.hand_records import run_record, write_records

SMALL = (
    *("--set", "model.num_layers=1", "--set", "model.channels=8"),
    *("--set", "train.epochs=2", "--accelerator", "cpu"),
)


def run(*arguments: object, code: int = 0) -> CliResult:
    """Run `gnnak` with arguments, and check its exit code."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def train(*arguments: str) -> CliResult:
    """Run `gnnak train` with a small network for two epochs, in the current folder."""
    return CliRunner().invoke(app, ["train", *arguments[:1], *SMALL, *arguments[1:]])


def records(folder: Path, name: str = "results") -> list[dict]:
    """Read the records of runs in a folder: in `results`, or of own data in `runs`."""
    return read_records(folder / name / "runs.jsonl")


def fake_training(patch, result: Callable[[RunConfig], dict | None]) -> list[RunConfig]:
    """Replace the runs of a schedule by records; return the configs that were "run".

    `result` returns entries of the record of a run; None = the run fails.
    """
    configs: list[RunConfig] = []

    def run_tasks(schedule, tasks, console, _):
        ended = Result()
        for job in (task.job for task in tasks):
            entries, config = result(job.config), job.config
            (ended.failed if entries is None else ended.done).append(job)
            if entries is not None:
                record = run_record(
                    config, config.train.seed, config.data.fold, **entries
                )
                write_records(schedule.places.results, [record])
                configs.append(config)
        return ended

    patch.setattr(Schedule, "run_tasks", run_tasks)
    return configs

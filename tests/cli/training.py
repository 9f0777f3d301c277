"""Run `gnnak train` with a small network, in seconds."""

from pathlib import Path

from typer.testing import CliRunner, Result

from gnnak.cli.program import app
from gnnak.training.records.results import read_records

SMALL = (
    *("--set", "model.num_layers=1", "--set", "model.channels=8"),
    *("--set", "train.epochs=2", "--accelerator", "cpu"),
)


def train(*arguments: str) -> Result:
    """Run `gnnak train` with a small network for two epochs, in the current folder."""
    return CliRunner().invoke(app, ["train", *arguments[:1], *SMALL, *arguments[1:]])


def records(folder: Path, name: str = "results") -> list[dict]:
    """Read the records of runs in a folder: in `results`, or of own data in `runs`."""
    return read_records(folder / name / "runs.jsonl")

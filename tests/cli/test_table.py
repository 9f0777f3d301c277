import contextlib
import json

import pytest
from typer.testing import CliRunner

from gnnak.cli import table_run
from gnnak.cli.program import app
from gnnak.report.lookup import RunRecords
from gnnak.report.paper import load_table, table_names
from gnnak.report.pending import pending_runs
from gnnak.training.launch import Places
from gnnak.training.processes.machine import Machine
from tests.report.hand_records import run_record, write_records


def told(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["table", *arguments])
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.fixture
def training(monkeypatch):
    """Replace training by writing a record; one model always fails."""
    configs = []

    def run_experiment(runs, experiment, places, machine, resume):
        (config,), results = runs, places.results
        assert resume
        if config.model.encodings == ("subgraph", "context"):
            raise RuntimeError("first line\nout of memory")
        configs.append((experiment, config))
        data = {"seed": config.train.seed, "fold": config.data.fold}
        write_records(results, [run_record(config, test=0.125, **data)])

    monkeypatch.setattr(table_run, "run_experiment", run_experiment)
    return configs


def test_table_without_a_name_lists_all():
    lines = told().splitlines()
    assert [line.split()[0] for line in lines] == table_names()
    assert json.loads(told("--json"))[0]["cells"] == 117


@pytest.mark.parametrize("shape", ["text", "markdown", "latex", "csv"])
def test_table_shows_the_papers_numbers_where_nothing_was_run(shape, tmp_path):
    shown = told("egonet-size", "--format", shape, "--results", str(tmp_path))
    assert "0.120" in shown
    assert "OOM" in shown


def test_table_run_what_is_missing_and_goes_on_after_a_failure(tmp_path, training):
    arguments = ["encodings", "--run", "--only", "zinc", "--seeds", "2"]
    arguments += ["--set", "train.epochs=3", "--results", str(tmp_path)]
    result = CliRunner().invoke(app, ["table", *arguments])
    assert result.exit_code == 1
    failure = "failed: w/o centroid encoding / ZINC-12K (MAE), seed 1: out of memory"
    assert failure in result.stderr
    assert len(training) == 8
    assert {config.train.epochs for _, config in training} == {3}
    assert "0.125 ± 0.000† (0.080 ± 0.001)" in result.stdout
    assert "† trained for 3 of 310 epochs; 2 of 3 seeds." in result.stdout
    again = told(*arguments, code=1)
    assert len(training) == 8
    assert again == result.stdout


def test_table_json_is_one_object(tmp_path, training):
    arguments = ["--run", "--only", "full / zinc", "--results", str(tmp_path)]
    shown = json.loads(told("encodings", *arguments, "--json"))
    assert shown["failed"] == []
    assert shown["cells"][0]["mean"] == 0.125
    assert shown["cells"][0]["runs"] == 3
    assert shown["cells"][1]["mean"] is None


def test_jobs_are_processes_of_gnnak_train(tmp_path, monkeypatch):
    commands = []

    class Program(contextlib.nullcontext):
        def __init__(self, command, **_):
            super().__init__(self)
            commands.append(command[2:])
            self.returncode = int("train.seed=2" in command)

        def communicate(self):
            return "", "error: no.\n"

    monkeypatch.setattr(table_run.subprocess, "Popen", Program)
    runs = pending_runs(load_table("encodings"), RunRecords([]), only="full / zinc")
    places = Places(tmp_path / "data", tmp_path / "runs", tmp_path)
    machine = Machine("cpu", recompute=True, max_copies=9, fast=False)
    failed = table_run.run_missing(runs, [], places, machine, jobs=2)
    assert failed == ["Full / ZINC-12K (MAE), seed 2"]
    end = ["--results", str(tmp_path), "--runs", str(tmp_path / "runs")]
    end += ["--accelerator", "cpu", "--resume", "--data-dir", str(tmp_path / "data")]
    end += ["--recompute", "--plain", "--max-copies", "9"]
    seeds = [[], ["--set", "train.seed=1"], ["--set", "train.seed=2"]]
    wanted = [["gnnak.cli", "train", "zinc", *seed, *end] for seed in seeds]
    assert sorted(commands) == sorted(wanted)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulatoin"], "did you mean 'simulation'?"),
        (["tu", "--format", "word"], "--format is 'word'; use one of: text"),
        (["tu", "--set", "train.epoch=3"], "did you mean train.epochs?"),
        (["tu", "--run", "--jobs", "0"], "Invalid value for '--jobs'"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(arguments, message, fails):
    assert message in fails("table", *arguments)


def test_help_shows_examples():
    assert "gnnak table encodings --run" in told("--help")

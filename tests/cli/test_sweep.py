import json
from pathlib import Path

import pytest

from gnnak.errors import OptionError
from gnnak.training.records.results import read_records
from gnnak.training.schedule.sweep import parse_values
from tests.cli.training import fake_training, run

SMALL = ("--set", "model.num_layers=1", "--set", "model.channels=8")


@pytest.fixture
def training(place, monkeypatch):
    """Replace training by writing a record; the score depends on model and seed."""

    def result(config):
        if config.model.name == "gcn":
            return None
        score = (0.8 if config.model.name == "gin" else 0.9) + 0.01 * config.train.seed
        return {"test": score, "metric": "accuracy", "lower_is_better": False}

    return fake_training(monkeypatch, result)


def told(*arguments: str, code: int = 0) -> str:
    return run("sweep", *arguments, code=code).stdout


@pytest.mark.heavy
def test_sweep_trains_every_combination_and_seed_once(training):
    arguments = ["triangles", "--over", "model.name=gin,gin-ak+", "--seeds", "2"]
    rows = json.loads(told(*arguments, "--json"))["rows"]
    assert [(row["values"]["model.name"], row["runs"]) for row in rows] == [
        ("gin", 2),
        ("gin-ak+", 2),
    ]
    assert [row["test"] for row in rows] == pytest.approx([0.805, 0.905])
    assert rows[0]["deviation"] == pytest.approx(0.01 / 2**0.5)
    assert len(training) == 4
    told(*arguments)
    assert len(training) == 4


def test_sweep_shows_the_score_of_the_folds_and_seeds_that_it_was_asked_for(training):
    folds = ["csl", "--set", "data.protocol=held-out"]
    told(*folds, "--seeds", "2")
    one = ["--set", "data.fold=0", "--set", "train.seed=1", "--json"]
    (row,) = json.loads(told(*folds, *one))["rows"]
    assert (row["runs"], row["planned"]) == (1, 1)
    assert row["test"] == pytest.approx(0.91)


@pytest.mark.heavy
def test_sweep_shows_a_row_for_a_combination_that_failed(training):
    shown = told("triangles", "--over", "model.name=gin,gcn", code=1)
    assert "0 of 1" in shown
    assert "1 of 1" in shown


def test_sweep_without_over_runs_seeds_of_one_setting(training):
    told("triangles", "--seeds", "3")
    assert sorted(config.train.seed for config in training) == [0, 1, 2]


def test_sweep_goes_over_the_folds_of_a_protocol(training):
    told("csl", "--set", "data.protocol=held-out", "--dry-run")
    assert training == []
    told("csl", "--set", "data.protocol=held-out")
    folds = [config.data.fold for config in training]
    assert folds == list(range(len(folds)))
    assert len(folds) > 1


@pytest.mark.slow
def test_sweep_trains_in_worker_processes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    over = ["--over", "model.name=gin,gin-ak+", "--set", "train.epochs=1"]
    shown = told("triangles", *over, *SMALL, "--jobs", "2", "--accelerator", "cpu")
    assert "gin-ak+" in shown
    assert len(read_records(tmp_path / "results" / "runs.jsonl")) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zinc", "--over", "model.name"], "give key=value,value"),
        (["zinc", "--over", "model.name="], "give key=value,value"),
        (["zinc", "--over", "train.seed=0,1"], "use --seeds for seeds"),
        (["zinc", "--over", "model.chanels=3"], "did you mean model.channels"),
        (
            [
                *("zinc", "--over", "model.name=sswl-gin,ds-gin"),
                *("--set", "model.family.order=SV"),
            ],
            "order is 'SV', but ds-gin ignores this option; leave it out",
        ),
        (["zink", "--seeds", "2"], "did you mean 'zinc'"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(arguments, message, fails):
    assert message in fails("sweep", *arguments)


def test_parse_values_reads_yaml_and_lists_inside_values():
    assert parse_values(["a.b=[x, y],null, 1e-3"]) == {
        "a.b": [["x", "y"], None, "1e-3"]
    }
    with pytest.raises(OptionError, match="twice"):
        parse_values(["a=1", "a=2"])
    with pytest.raises(OptionError, match="is not a YAML list"):
        parse_values(["a=[1"])


@pytest.fixture
def own_sweep(tmp_path):
    """Write a table of molecules; return the arguments of a sweep of six runs."""
    rows = "".join(f"{'C' * (i + 1)},{i}.5,x\n" for i in range(9))
    (tmp_path / "mine.csv").write_text("structure,mass,name\n" + rows)
    arguments = ["mine.csv", "--smiles", "structure", "--target", "mass", "--folds"]
    return [*arguments, "3", "--over", "train.learning_rate=0.1,0.2", *SMALL]


def test_sweep_over_own_data_trains_every_fold_once(training, own_sweep):
    arguments = own_sweep
    for _ in range(2):
        shown = json.loads(told(*arguments, "--json"))["rows"]
        assert [row["runs"] for row in shown] == [3, 3]
        assert len(training) == 6
    assert {config.data.own.targets for config in training} == {("mass",)}
    assert {config.data.fold for config in training} == {0, 1, 2}


def test_sweep_over_own_data_finds_the_records_of_earlier_versions(training, own_sweep):
    told(*own_sweep, "--results", "results")
    assert len(training) == 6
    rows = json.loads(told(*own_sweep, "--json"))["rows"]
    assert [row["runs"] for row in rows] == [3, 3]
    assert len(training) == 6
    told(*own_sweep, "--results", "other")
    assert len(training) == 12
    told(*own_sweep, "--seeds", "2")
    assert len(training) == 18
    assert len(read_records(Path("runs/runs.jsonl"))) == 6

import json
import re
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from gnnak.cli.program import app
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
    arguments = ["triangles", "--over", "model=gin,GIN-AK+", "--seeds", "2"]
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


def test_sweep_takes_the_short_options_of_train(training):
    both = (command_options("train"), command_options("sweep"))
    of_one_run = {"--devices", "--num-nodes", "--deterministic", "--tensorboard"}
    assert both[0] - both[1] == of_one_run | {"--resume", "--show"}
    words = "--epochs 2 --lr 0.1 --layers 1 --channels 8 --batch-size 4 --seed 5"
    more = ["--over", "num_hops=1,2", "--model", "GIN-AK", "--target", "star"]
    rows = json.loads(told("counting", *words.split(), *more, "--json"))["rows"]
    assert [row["values"] for row in rows] == [
        {"model.subgraphs.num_hops": hops} for hops in (1, 2)
    ]
    for hops, config in enumerate(training, start=1):
        assert (config.model.name, config.model.subgraphs.num_hops) == ("gin-ak", hops)
        assert (config.model.num_layers, config.model.channels) == (1, 8)
        assert (config.train.epochs, config.train.batch_size) == (2, 4)
        assert (config.train.learning_rate, config.train.seed) == (0.1, 5)
        assert config.data.target == "star"


def command_options(name: str) -> set[str]:
    """Return the options of a command, such as `--epochs`."""
    command = get_command(app).commands[name]
    return {each for option in command.params for each in option.opts if "--" in each}


@pytest.mark.slow
def test_sweep_trains_in_worker_processes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    Path("own_layers_of_a_sweep.py").write_text(
        "from torch_geometric.nn import SAGEConv\nclass Own(SAGEConv): pass\n"
    )
    over = ["--over", "model=gin,own_layers_of_a_sweep:Own-ak+", "--epochs", "1"]
    shown = told("triangles", *over, *SMALL, "--jobs", "2", "--accelerator", "cpu")
    assert "own_layers" in shown
    assert len(read_records(tmp_path / "results" / "runs.jsonl")) == 2
    del sys.modules["own_layers_of_a_sweep"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zinc", "--over", "model.name"], "give key=value,value"),
        (["zinc", "--over", "model.name="], "give key=value,value"),
        (["zinc", "--over", "train.seed=0,1"], "use --seeds for seeds"),
        (["zinc", "--over", "model.chanels=3"], "did you mean model.channels"),
        (["zinc", "--over", "num_hop=1,2"], "did you mean model.subgraphs.num_hops?"),
        (["zinc", "--over", "k=1,2"], "did you mean model.subgraphs.num_hops?"),
        (
            ["zinc", "--over", "num_hops=1,2", "--num-hops", "3"],
            "num_hops is set for all runs and varied by --over; leave out one of both.",
        ),
        (["zinc", "--over", "lr=1", "--over", "learning_rate=2"], "_rate twice; give"),
        (["zinc", "--over", "seed=0,1"], "use --seeds for seeds"),
        (["zinc", "--over", "model=gim,gin"], "did you mean 'gin'"),
        (
            ["zinc", "--layer", "2"],
            "No such option: --layer (Possible options: --layers",
        ),
        (
            [
                *("zinc", "--over", "model.name=sswl-gin,ds-gin"),
                *("--set", "model.family.order=SV"),
            ],
            "order is 'SV', but ds-gin ignores this option; leave it out",
        ),
        (
            ["csl", "--model", "gin", "--over", "num_hops=1,2"],
            "num_hops is 1, but gin ignores this option; leave it out",
        ),
        (
            ["csl", "--over", "model=gin,gcn", "--over", "num_hops=1,2"],
            "num_hops is 1, but gin ignores this option; leave it out",
        ),
        (
            ["csl", "--model", "gin,gin-ak+"],
            "model 'gin,gin-ak+'; give one, or --over model=gin,gin-ak+ to gnnak sweep",
        ),
        (["zink", "--seeds", "2"], "did you mean 'zinc'"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(arguments, message, fails):
    assert message in fails("sweep", *arguments)


@pytest.mark.usefixtures("place")
def test_sweep_over_models_takes_options_of_some_of_them():
    over = ("--over", "model.name=gin,gin-ak+-s", "--set", "min_coverage=2")
    told = run("sweep", "csl", *over, "--set", "data.fold=0", "--dry-run").output
    assert "gin-ak+-s" in told


def test_sweep_trains_a_model_once_for_options_that_it_ignores(training):
    over = ("--over", "model=gin,gin-ak+", "--over", "num_hops=1,2")
    both = run("sweep", "triangles", *over, "--json")
    assert "model=gin ignores num_hops: trained once, not for each" in both.stderr
    assert [row["values"] for row in json.loads(both.stdout)["rows"]] == [
        {"model.name": "gin"},
        {"model.name": "gin-ak+", "model.subgraphs.num_hops": 1},
        {"model.name": "gin-ak+", "model.subgraphs.num_hops": 2},
    ]
    assert len(training) == 3
    again = run("sweep", "triangles", *over)
    assert re.search(r"┃ model +┃ num_hops ┃", again.stdout)
    assert "best validation accuracy: model=gin-ak+, num_hops=1\n" in again.stderr
    kinds = ("--over", "kind=egonets,walks", "--over", "num_hops=1,2")
    shown = run("sweep", "triangles", *kinds, "--dry-run")
    assert "kind=walks ignores num_hops" in shown.stderr
    assert "1 run, about" in shown.stdout  # the runs on egonets have records


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


def test_sweep_names_the_best_combination_and_how_to_predict(training, own_sweep):
    assert (
        "best validation accuracy: learning_rate=0.1\n"
        in run("sweep", *own_sweep).stderr
    )
    for config in training:
        folder = Path("runs", f"mine-gin-ak+-{config.hash()}")
        folder.mkdir(parents=True)
        (folder / "best.ckpt").touch()
    again = run("sweep", *own_sweep).stderr
    assert "all runs were already recorded; none was trained." in again
    path = f"runs/mine-gin-ak+-{training[0].hash()}/best.ckpt"
    line = f"predict for new data: gnnak predict {path} NEW.csv -o out.csv"
    assert f"best validation accuracy: learning_rate=0.1; {line}\n" in again


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

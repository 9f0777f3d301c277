import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gnnak.cli.program import app
from gnnak.errors import TrainingError
from tests.cli.training import records, train


def files(folder: Path) -> list[str]:
    """Return the names of the files in the only run folder."""
    (run,) = (folder / "runs").iterdir()
    return sorted(path.name for path in run.iterdir())


@pytest.fixture
def unfinished(place, monkeypatch):
    """Train a run that fails when its record is written."""
    with monkeypatch.context() as patch:
        patch.setattr("gnnak.training.launch.append_record", full_disk)
        result = train("triangles")
    assert result.exception is not None
    assert "last.ckpt" in files(place)
    return place


def full_disk(*_):
    raise TrainingError("the disk is full.")


def test_train_writes_one_record_and_a_folder_without_last_checkpoint(place):
    result = train("triangles")
    assert result.exit_code == 0, result.output
    assert files(place) == ["best.ckpt", "config.yaml", "metrics.csv"]
    (record,) = records(place)
    assert record["experiment"] == "triangles"
    assert record["epochs"] == 2
    assert record["hash"] in next((place / "runs").iterdir()).name
    assert f"{record['scores']['test']:.4f}" in result.stdout
    assert "best" in result.stderr


def test_train_json_is_the_record(place):
    result = train("triangles", "--json", "--model", "gin", "--seed", "3")
    told = json.loads(result.stdout)
    assert [told] == records(place)
    assert (told["config"]["model"]["name"], told["seed"]) == ("gin", 3)


def test_train_show_is_an_experiment_file(place):
    options = ("--model", "gcn-ak", "--seed", "7", "--set", "model.encodings=[context]")
    shown = train("triangles", "--show", *options)
    Path("mine.yaml").write_text(shown.stdout)
    again = CliRunner().invoke(app, ["train", "mine.yaml", "--show"])
    assert again.stdout == shown.stdout
    assert "name: gcn-ak" in shown.stdout
    assert sorted(path.name for path in place.iterdir()) == ["mine.yaml"]


def test_train_follows_the_file_where_no_option_says_otherwise(place):
    Path("mine.yaml").write_text("model.name: gin\ntrain.seed: 5\n")
    shown = CliRunner().invoke(app, ["train", "mine.yaml", "--seed", "6", "--show"])
    assert "name: gin\n" in shown.stdout
    assert "seed: 6\n" in shown.stdout


def test_train_runs_all_folds_or_the_given_one(place):
    one = ("--set", "train.epochs=1", "--model", "gin")
    assert train("csl", *one).exit_code == 0
    assert [record["fold"] for record in records(place)] == [0, 1, 2, 3, 4]
    assert train("csl", *one, "--fold", "2").exit_code == 0
    assert records(place)[-1]["fold"] == 2
    assert len({record["hash"] for record in records(place)}) == 5


@pytest.mark.heavy
def test_train_resume_leaves_folds_that_are_finished(place):
    one = ("--set", "train.epochs=1", "--model", "gin")
    assert train("csl", *one, "--fold", "1").exit_code == 0
    result = train("csl", *one, "--resume", "--json")
    assert "1 of 5 runs ended earlier: not trained again" in result.stderr
    assert [record["fold"] for record in records(place)] == [1, 0, 2, 3, 4]
    told = [json.loads(line)["fold"] for line in result.stdout.splitlines()]
    assert told == [0, 1, 2, 3, 4]


def test_train_resumes_an_unfinished_run(unfinished):
    assert train("triangles", "--resume").exit_code == 0
    assert len(records(unfinished)) == 1
    assert "last.ckpt" not in files(unfinished)


def test_train_does_not_begin_an_unfinished_run_anew(unfinished):
    result = train("triangles")
    told = "holds an unfinished run; go on with --resume (resume=True), or remove"
    assert told in str(result.exception)
    assert "last.ckpt" in files(unfinished)
    assert records(unfinished) == []


def test_train_resume_with_other_options_names_them(unfinished):
    result = train("triangles", "--resume", "--batch-size", "5", "--seed", "3")
    told = "train.batch_size=32 instead of 5 and train.seed=0 instead of 3"
    assert f"was stopped with {told}; give its options" in str(result.exception)
    assert "last.ckpt" in files(unfinished)


@pytest.mark.parametrize("part", ["results", "metrics.csv", "best.ckpt"])
def test_train_on_a_full_disk_says_so_and_can_go_on(part, place, monkeypatch, fails):
    from gnnak.graphs.readers import files as readers
    from gnnak.training.records import results

    def full(*_):
        raise OSError(28, "No space left on device")

    def replace(draft, path):
        if Path(path).name == part:
            full()
        Path(draft).rename(path)

    with monkeypatch.context() as patch:
        patch.setattr(readers.os, "replace", replace)
        if part == "results":
            patch.setattr(results, "_write_whole", full)
        result = train("triangles")
    assert "No space left on device" in str(result.exception)
    assert "last.ckpt" in files(place)
    assert not list(place.glob("runs/*/.*"))
    assert train("triangles", "--resume").exit_code == 0
    assert len(records(place)) == 1


@pytest.mark.parametrize("model", ["ppgn", "ppgn-ak+", "pna", "gcn-ak-s"])
def test_train_takes_models_of_every_kind_on_plain_graphs(model, place):
    one = ("--set", "train.epochs=1", "--set", "model.channels=4")
    result = train("triangles", "--model", model, *one)
    assert result.exit_code == 0, result.output

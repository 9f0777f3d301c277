import os
import re
import signal
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from gnnak.datasets.own.options import OwnData
from gnnak.errors import TrainingError
from gnnak.training import launch
from gnnak.training.config.options import change
from gnnak.training.launch import Places, folds_of, run_experiment
from gnnak.training.processes.locks import reserved
from gnnak.training.processes.stopping import Stopped, stoppable
from gnnak.training.records.results import read_records
from tests.training.small import small_config, triangles


@pytest.fixture
def places(tmp_path, monkeypatch):
    data = triangles(4)
    data = replace(data, info=replace(data.info, published_in_folds=True))
    monkeypatch.setattr(launch, "load_dataset", lambda *_, **__: data)
    return Places(None, tmp_path / "runs", tmp_path / "results")


def test_places_of_a_config_is_a_valid_folder_name():
    config = small_config(model__name="pna*-ak+", data__target="star")
    folder = Places(runs=Path("r")).of(config, "counting")
    assert folder == Path("r") / f"counting-star-pnastar-ak+-{config.hash()}"


def test_places_records_own_data_beside_the_runs_and_data_sets_in_results():
    named = small_config()
    own = replace(named, data=replace(named.data, own=OwnData("molecules.csv")))
    runs, chosen = Path("r"), Path("elsewhere")
    assert Places.of_run(named, None, runs, None).results == Path("results")
    assert Places.of_run(own, None, runs, None).records == runs / "runs.jsonl"
    for config in (named, own):
        assert Places.of_run(config, None, runs, chosen).results == chosen


@pytest.mark.parametrize(
    ("protocol", "fold", "folds"),
    [("split", None, [None]), ("held-out", None, [0, 1, 2, 3]), ("held-out", 2, [2])],
)
def test_folds_of_a_config_are_all_or_the_one_it_names(protocol, fold, folds):
    config = small_config(data__protocol=protocol, data__fold=fold)
    found = folds_of(config, triangles(4))
    assert [each.data.fold for each in found] == folds


def test_run_experiment_writes_records_and_removes_last_checkpoints(places):
    config = small_config(data__protocol="held-out", train__epochs=1)
    records = run_experiment([config], "mine", places)
    assert records == read_records(places.records)
    assert [record["fold"] for record in records] == [0, 1, 2, 3]
    assert {record["experiment"] for record in records} == {"mine"}
    assert len(list(places.runs.glob("*/best.ckpt"))) == 4
    assert not list(places.runs.glob("*/last.ckpt"))


def test_run_experiment_resumed_reads_finished_runs_from_records(places):
    config = small_config(train__epochs=1)
    first = run_experiment([config], "mine", places)
    assert run_experiment([config], "mine", places, resume=True) == first
    assert len(read_records(places.records)) == 1
    run_experiment([config], "other", places, resume=True)
    run_experiment([config], "mine", places)
    assert len(read_records(places.records)) == 3


def test_a_run_killed_right_after_its_record_is_recorded_once(places, monkeypatch):
    config, append = small_config(train__epochs=1), launch.append_record

    def killed(*arguments):
        append(*arguments)
        raise SystemExit  # as if killed before last.ckpt is removed

    with monkeypatch.context() as patch:
        patch.setattr(launch, "append_record", killed)
        with pytest.raises(SystemExit):
            run_experiment([config], "mine", places)
    (first,) = read_records(places.records)
    (again,) = run_experiment([config], "mine", places, resume=True)
    assert (again["scores"], again["key"]) == (first["scores"], first["key"])
    assert read_records(places.records) == [first]
    assert not list(places.runs.glob("*/last.ckpt"))
    run_experiment([config], "mine", places)
    assert len(read_records(places.records)) == 2


@pytest.fixture
def stopped(places, monkeypatch):
    """Train a run that stops before its record is written; return its folder."""

    def stop(*_):
        raise SystemExit

    config = small_config(train__epochs=2, data__protocol="held-out", data__fold=1)
    with monkeypatch.context() as patch:
        patch.setattr(launch, "append_record", stop)
        with pytest.raises(SystemExit):
            run_experiment([config], "mine", places)
    return places.of(config, "mine")


FOLD = {"train.epochs": 2, "data.protocol": "held-out", "data.fold": 1}
OTHERS = [
    ({"train.epochs": 1}, "train.epochs=2 instead of 1"),
    (
        {"train.epochs": 1, "train.seed": 7, "model.name": "gin"},
        "model.name='gin-ak+' instead of 'gin', train.epochs=2 instead of 1 and "
        "train.seed=0 instead of 7",
    ),
    ({"train.epochs": 1, "data.fold": None}, "train.epochs=2 instead of 1"),
]


@pytest.mark.parametrize(("options", "told"), OTHERS)
def test_resume_with_other_options_names_them(options, told, places, stopped):
    config, left = change(small_config(), FOLD | options), sorted(places.runs.iterdir())
    told = f"{stopped} was stopped with {told}; give its options to go on with it, or"
    with pytest.raises(TrainingError, match=re.escape(told)):
        run_experiment([config], "mine", places, resume=True)
    assert sorted(places.runs.iterdir()) == left
    with reserved(stopped):  # it runs: it was not stopped
        run_experiment([config], "mine", places, resume=True)
    assert len(read_records(places.records)) == len(folds_of(config, triangles(4)))


@pytest.mark.parametrize("options", [{"train.seed": 7}, {"data.fold": 2}])
def test_resume_of_another_seed_or_fold_names_the_stopped_one(options, places, stopped):
    config, console = change(small_config(), FOLD | options), Console(file=StringIO())
    run_experiment([config], "mine", places, resume=True, console=console)
    (told,) = [
        line for line in console.file.getvalue().splitlines() if "stopped" in line
    ]
    ((key, value),) = options.items()
    was = {"train.seed": 0, "data.fold": 1}[key]
    assert told == (
        f"a new run begins: the run in {stopped} was stopped with {key}={was} instead "
        f"of {value}"
    )


def test_resume_without_a_stopped_run_says_that_a_new_one_begins(places):
    config, console = small_config(train__epochs=1), Console(file=StringIO())
    run_experiment([config], "mine", places, resume=True, console=console)
    told = "a new run begins: no run was stopped"
    assert told in console.file.getvalue().splitlines()


@pytest.mark.parametrize("moment", ["run.Checkpoint.save", "launch.append_record"])
def test_a_signal_in_the_last_moments_of_a_run_says_how_to_go_on(
    moment, places, monkeypatch
):
    config = small_config(train__epochs=1)
    with monkeypatch.context() as patch, stoppable():
        send = lambda *_: os.kill(os.getpid(), signal.SIGINT)  # noqa: E731
        patch.setattr(f"gnnak.training.{moment}", send)
        with pytest.raises(
            Stopped, match=r"^stopped by SIGINT; go on with --resume\.$"
        ):
            run_experiment([config], "mine", places)
    run_experiment([config], "mine", places, resume=True)
    assert len(read_records(places.records)) == 1


def test_resume_compares_no_options_of_sweeps_ended_runs_and_folds(places, stopped):
    other = change(small_config(), FOLD | {"train.epochs": 1})
    run_experiment([other], "mine", places, resume=True, compare=False)
    run_experiment([other], "mine", places, resume=True)  # it has a record
    every = change(small_config(), FOLD | {"data.fold": None})
    assert len(run_experiment([every], "mine", places, resume=True)) == 4
    assert not (stopped / "last.ckpt").exists()


def test_resume_does_not_repeat_a_run_that_has_just_ended(places, monkeypatch):
    config, load = small_config(train__epochs=1), launch.load_dataset
    others = []

    def slow_load(*args, **options):
        if not others:  # the other process ends the run while this one loads data
            others.append(None)
            others[0] = run_experiment([config], "mine", places, resume=True)
        return load(*args, **options)

    monkeypatch.setattr(launch, "load_dataset", slow_load)
    assert run_experiment([config], "mine", places, resume=True) == others[0]
    assert len(read_records(places.records)) == 1

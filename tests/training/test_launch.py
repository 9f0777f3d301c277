from dataclasses import replace
from pathlib import Path

import pytest

from gnnak.datasets.own.options import OwnData
from gnnak.training import launch
from gnnak.training.launch import Places, folds_of, run_experiment
from gnnak.training.records.results import read_records
from tests.training.small import small_config, triangles


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Temporary folders; every data set that is loaded is `triangles`."""
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


def test_resume_does_not_repeat_a_run_that_another_process_has_just_ended(
    places, monkeypatch
):
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

from gnnak.report.cells import load_table
from gnnak.report.tables import pending_runs
from gnnak.training.config.experiment import load_experiment
from gnnak.training.config.options import change, parse_settings
from gnnak.training.records.lookup import RunRecords
from tests.report.hand_records import run_record
from tests.report.small_table import GOOD, IMAGES, POOR, SMALL, records

NONE = RunRecords([])


def test_pending_runs_are_those_without_a_record_of_just_their_settings():
    runs = pending_runs(SMALL, records(run_record(IMAGES, 1)))
    assert [(run.config, run.title) for run in runs] == [
        (POOR, "GIN / ZINC (MAE), seed 0"),
        (change(POOR, {"train.seed": 1}), "GIN / ZINC (MAE), seed 1"),
        (IMAGES, "GIN-AK+ / CIFAR10 (ACC), seed 0"),
    ]


def test_pending_runs_can_be_fewer_or_more():
    assert len(pending_runs(SMALL, NONE)) == 6
    assert len(pending_runs(SMALL, NONE, seeds=1)) == 3
    assert len(pending_runs(SMALL, NONE, only=["cifar"])) == 2
    more = pending_runs(SMALL, records(), seeds=3, only=["gin-ak+ / zinc"])
    assert [run.config for run in more] == [change(GOOD, {"train.seed": 2})]


def test_shortened_runs_are_pending_unless_a_longer_run_has_a_record():
    runs = pending_runs(SMALL.shortened(2), records(), seeds=1)
    lengths = {"train.epochs": 155, "train.step": 25}
    assert [run.config for run in runs] == [
        change(config, lengths) for config in (POOR, IMAGES)
    ]
    done = records(*(run_record(run.config) for run in runs))
    assert pending_runs(SMALL.shortened(2), done, seeds=1) == []
    assert pending_runs(SMALL.shortened(3), done, seeds=1) == []
    assert len(pending_runs(SMALL.shortened(1.5), done, seeds=1)) == 2


def test_runs_with_another_schedule_are_pending():
    often = SMALL.changed({"train.step": 5, "train.epochs": 100})
    assert len(pending_runs(often, records(), seeds=1)) == 3


def test_pending_runs_go_over_folds():
    runs = pending_runs(load_table("tu"), NONE, only=["gin-ak+ / mutag"])
    assert [run.config.data.fold for run in runs] == list(range(10))
    assert runs[3].title == "GIN-AK+ / MUTAG (ACC), seed 0, fold 3"


def test_pending_runs_can_be_limited_to_the_first_folds():
    runs = pending_runs(load_table("tu"), NONE, only=["gin-ak+ / mutag"], folds=2)
    assert [run.config.data.fold for run in runs] == [0, 1]
    many = pending_runs(load_table("tu"), NONE, only=["gin-ak+ / mutag"], folds=99)
    assert len(many) == 10
    assert len(pending_runs(SMALL, NONE, folds=1)) == 6  # these tables have no folds


def test_settings_lead_from_the_experiment_to_the_run():
    names = ("simulation", "real-world", "ppgn-sr25", "tu")
    for name in names:
        for run in pending_runs(load_table(name), NONE, seeds=2)[1::7]:
            start = load_experiment(run.experiment)
            settings = parse_settings(start.settings(run.config))
            assert change(start.config, settings) == run.config

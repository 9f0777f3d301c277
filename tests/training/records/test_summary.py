import pytest

from gnnak.errors import OptionError
from gnnak.training.config.run_config import DataConfig, RunConfig
from gnnak.training.records.lookup import Summary, best_mean_epoch, summarise
from tests.report.hand_records import run_record

ZINC = RunConfig()
FOLDS = RunConfig(data=DataConfig("mutag", protocol="published"))


def test_summarise_is_mean_and_sample_deviation_of_the_test_scores():
    records = [run_record(ZINC, seed, test=0.1 + 0.1 * seed) for seed in range(3)]
    found = summarise(records, seeds=3, epochs=310)
    assert found == Summary(
        pytest.approx(0.2),
        pytest.approx(0.1),
        3,
        "",
        values=pytest.approx((0.1, 0.2, 0.3)),
    )


def test_only_scores_of_runs_with_fewer_epochs_than_expected_are_shortened():
    records = [run_record(ZINC)]
    assert summarise(records, epochs=1000).shortened
    assert not summarise(records, epochs=310).shortened
    assert not summarise(records, epochs=100).shortened
    assert not summarise(records, "memory", epochs=1000).shortened


def test_summarise_uses_the_last_record_of_each_seed():
    records = [run_record(ZINC, 0, test=9.0), run_record(ZINC, 0, test=0.3)]
    assert summarise(records) == Summary(0.3, None, 1, "", values=(0.3,))


def fold_record(fold, curve):
    curves = {"train_loss": curve, "validation": curve}
    return run_record(
        FOLDS, 0, fold, curves=curves, metric="accuracy", lower_is_better=False
    )


def test_summarise_reads_published_folds_at_the_best_mean_epoch():
    # Each fold alone is best in the first or the last epoch; the mean in the second:
    # means are 0.55, 0.65, 0.60.
    records = [fold_record(0, [0.9, 0.6, 0.4]), fold_record(1, [0.2, 0.7, 0.8])]
    found = summarise(records, seeds=1, folds=2)
    assert found == Summary(
        pytest.approx(0.65),
        pytest.approx(0.05 * 2**0.5),
        2,
        "",
        lower_is_better=False,
        values=(0.6, 0.7),
    )


def test_summarise_reads_held_out_folds_by_their_test_scores():
    held_out = RunConfig(data=DataConfig("exp", protocol="held-out"))
    records = [run_record(held_out, 0, fold, test=float(fold)) for fold in (0, 1)]
    assert summarise(records, seeds=1, folds=2).mean == 0.5


@pytest.mark.parametrize(
    ("records", "asked", "note"),
    [
        ([run_record(ZINC)], {"seeds": 3}, "1 of 3 seeds"),
        ([fold_record(0, [0.5])], {"seeds": 1, "folds": 10}, "1 of 10 folds"),
        (
            [run_record(ZINC, epochs=30)],
            {"seeds": 3, "epochs": 310},
            "trained for 30 of 310 epochs; 1 of 3 seeds",
        ),
        (
            [
                fold_record(0, [0.5]),
                fold_record(1, [0.5]),
                fold_record(0, [0.5]) | {"seed": 1},
            ],
            {"seeds": 2, "folds": 2},
            "3 of 4 runs",
        ),
    ],
)
def test_summarise_notes_missing_runs_and_epochs(records, asked, note):
    assert summarise(records, **asked).note == note


def test_summarise_of_seconds_and_memory():
    record = run_record(ZINC)
    assert summarise([record], "seconds").mean == 2.0
    assert summarise([record], "memory").mean == 1234.5


def test_summarise_leaves_out_undefined_test_scores():
    records = [run_record(ZINC, seed, test=0.1 + 0.1 * seed) for seed in range(3)]
    records[1]["scores"]["test"] = None
    note = "the test score is undefined in 1 of 3 runs"
    assert summarise(records).mean == pytest.approx(0.2)
    assert (summarise(records).runs, summarise(records).note) == (2, note)
    assert summarise(records, "seconds").mean == 2.0
    none = summarise(records[1:2])
    assert (none.mean, none.deviation, none.runs) == (None, None, 0)


def test_summarise_refuses_no_records():
    with pytest.raises(OptionError, match="no record"):
        summarise([])


def test_best_mean_epoch_of_errors_is_the_first_lowest():
    assert best_mean_epoch([[3.0, 1.0, 1.0], [3.0, 1.0]], lower_is_better=True) == 1

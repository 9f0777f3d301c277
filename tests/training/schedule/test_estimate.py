import pytest

from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.schedule.estimate import (
    SLOWDOWN,
    START_SECONDS,
    Estimate,
    Estimator,
    epochs_done,
    runs_at_once,
)
from tests.report.hand_records import run_record

ZINC = change(RunConfig(), {"train.epochs": 10})


def recorded(total: float, config=ZINC, megabytes=100.0, **more):
    seconds = {"data": 0, "train": 1, "evaluation": 0, "total": total, "start": 5.0}
    memory = {"train": megabytes, "evaluation": 50.0}
    return run_record(config, seconds=seconds, peak_memory_mb=memory, **more)


def test_estimate_is_the_cost_of_the_same_cell_with_another_seed():
    estimate = Estimator([recorded(30.0)], "abacus")
    assert estimate(change(ZINC, {"train.seed": 3})) == Estimate(35.0, 100.0)


def test_estimate_grows_with_epochs_and_shrinks_with_those_done():
    estimate = Estimator([recorded(30.0)], "abacus")
    assert estimate(change(ZINC, {"train.epochs": 20})).seconds == 65.0
    assert estimate(ZINC, done=9).seconds == 8.0
    assert estimate(ZINC, done=99).seconds == 5.0


def test_estimate_takes_the_most_similar_runs_of_a_data_set():
    plain = change(ZINC, {"model.name": "gin"})
    deep = change(ZINC, {"model.num_layers": 9})
    records = [recorded(30.0), recorded(10.0, plain), recorded(90.0, deep)]
    estimate = Estimator(records, "abacus")
    assert estimate(deep).seconds == 95.0
    # No run has 5 layers: the median of the two runs with the same model.
    assert estimate(change(ZINC, {"model.num_layers": 5})).seconds == 65.0
    # No run has PNA*: the median of the uplifted models.
    assert estimate(change(ZINC, {"model.name": "pna*-ak+"})).seconds == 65.0
    assert estimate(change(ZINC, {"model.name": "gcn"})).seconds == 15.0


def test_estimate_on_another_data_set_is_in_proportion_to_its_nodes():
    other = change(ZINC, {"data.name": "mutag"})
    estimate = Estimator([recorded(30.0)], "abacus", sizes={"zinc": 10, "mutag": 40})
    assert estimate(other).seconds == pytest.approx(5.0 + 4 * 30.0)
    assert Estimator([recorded(30.0)], "abacus")(other) is None


def benched(epoch: float, config=ZINC, **more):
    record = {"kind": "bench", "seconds": {"epoch": epoch}, "peak_memory_mb": 70.0}
    given = {"device": "abacus", "config": run_record(config)["config"], "fast": True}
    return record | given | more


def test_estimate_of_a_run_that_was_only_benchmarked():
    records = [benched(3.0), benched(99.0, fast=False)]
    found = Estimator(records, "abacus")(ZINC)
    assert found == Estimate(START_SECONDS + 10 * 3.0, 70.0)


def test_estimate_prefers_runs_to_benchmarks():
    for records in ([recorded(30.0), benched(99.0)], [benched(99.0), recorded(30.0)]):
        assert Estimator(records, "abacus")(ZINC) == Estimate(35.0, 100.0)


def test_estimate_prefers_similar_models_to_the_same_data_set():
    plain = change(ZINC, {"model.name": "gin", "data.name": "mutag"})
    uplifted = change(ZINC, {"data.name": "mutag"})
    records = [recorded(10.0, plain), recorded(30.0)]
    sizes = {"zinc": 10, "mutag": 40}
    assert Estimator(records, "abacus", sizes=sizes)(uplifted).seconds == 125.0
    assert Estimator(records, "abacus")(uplifted).seconds == 15.0


def test_estimate_multiplies_the_cost_elsewhere_by_that_of_other_base_gnns():
    there, here = {"data.name": "zinc"}, {"data.name": "mutag"}
    records = [
        recorded(10.0, change(ZINC, there | {"model.name": "gin-ak+"})),
        recorded(30.0, change(ZINC, here | {"model.name": "gin-ak+"})),
        recorded(99.0, change(ZINC, here | {"model.name": "gin"})),
        recorded(70.0, change(ZINC, there | {"model.name": "pna*-ak+"})),
    ]
    wanted = change(ZINC, here | {"model.name": "pna*-ak+"})
    sizes = {"zinc": 10, "mutag": 40}
    for given in (None, sizes):
        estimate = Estimator(records, "abacus", sizes=given)
        assert estimate(wanted).seconds == pytest.approx(5.0 + 3 * 70.0)


def test_estimate_from_another_device_is_scaled_by_runs_on_both():
    small, large = {"model.num_layers": 1}, {"model.num_layers": 9}
    other = {"device": "laptop"}
    records = [
        recorded(10.0, change(ZINC, small)),
        recorded(40.0, change(ZINC, small), **other),
        recorded(300.0, change(ZINC, large), **other),
        recorded(500.0, change(ZINC, {"data.name": "mutag"}), **other),
    ]
    estimate = Estimator(records, "abacus")
    assert estimate(change(ZINC, large)).seconds == pytest.approx(5.0 + 300.0 / 4)
    # Runs on this device with the same model come before other models elsewhere.
    assert estimate(change(ZINC, {"model.num_layers": 5})).seconds == 15.0
    wanted = change(ZINC, {"data.name": "mutag", "model.num_layers": 5})
    assert estimate(wanted).seconds == pytest.approx(5.0 + 500.0 / 4)
    assert Estimator(records[1:], "abacus")(change(ZINC, large)) is None


def test_estimate_ignores_records_without_a_time():
    records = [recorded(30.0), recorded(0.0, device="laptop")]
    assert Estimator(records, "abacus")(ZINC).seconds == 35.0
    assert Estimator(records, "laptop")(ZINC) is None


def test_estimate_is_none_without_records_of_the_device():
    assert Estimator([recorded(30.0)], "another device")(ZINC) is None
    assert Estimator([], "abacus")(ZINC) is None


def test_estimate_uses_the_newest_record_of_a_run():
    records = [recorded(30.0), recorded(50.0)]
    assert Estimator(records, "abacus")(ZINC).seconds == 55.0


def test_estimate_adds_a_slowdown_only_for_more_runs_at_once():
    alone, shared = recorded(30.0), recorded(80.0, seed=1, jobs=8)
    assert Estimator([shared], "abacus", jobs=8)(ZINC).seconds == pytest.approx(85.0)
    expected = 5.0 + 30.0 * (1 + 7 * SLOWDOWN)
    assert Estimator([alone], "abacus", jobs=8)(ZINC).seconds == pytest.approx(expected)


def test_records_of_older_versions_are_read():
    old = run_record(ZINC, seconds={"train": 1.0, "evaluation": 0.0, "total": 30.0})
    assert Estimator([old], "abacus")(ZINC).seconds == 30.0 + START_SECONDS
    unknown = recorded(30.0)
    unknown["config"]["model"]["abandoned_option"] = 1
    assert Estimator([unknown], "abacus")(ZINC) is None
    assert runs_at_once(old) == 1
    assert runs_at_once(old | {"shared_gpu": True}) == 7
    assert runs_at_once(old | {"jobs": 3}) == 3


def test_epochs_done_reads_the_curves_that_belong_to_a_checkpoint(tmp_path):
    assert epochs_done(tmp_path) == 0
    (tmp_path / "metrics.csv").write_text("epoch,validation\n0,0.5\n1,0.4\n")
    assert epochs_done(tmp_path) == 0
    (tmp_path / "last.ckpt").touch()
    assert epochs_done(tmp_path) == 2
    (tmp_path / "metrics.csv").unlink()
    assert epochs_done(tmp_path) == 0

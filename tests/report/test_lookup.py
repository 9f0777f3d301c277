import json

from gnnak.report import tables
from gnnak.report.cells import load_table
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.records.lookup import RunRecords
from tests.report.hand_records import run_record, write_records
from tests.report.small_table import GOOD, IMAGES, SMALL, fill_table, records

ZINC = RunConfig()
SHORT = change(ZINC, {"train.epochs": 20})
SHORTER = change(ZINC, {"train.epochs": 10})


def plan(row, column):
    cells = (cell for line in load_table("subgraphdrop").rows for cell in line)
    return next(c.plan for c in cells if (c.row, c.column) == (row, column))


def test_complete_prefers_the_same_settings_then_the_most_epochs():
    long, exact, short = (run_record(each) for each in (ZINC, SHORT, SHORTER))
    middle = run_record(change(ZINC, {"train.epochs": 100}))
    others = [short, middle, long]
    assert RunRecords([*others, exact]).complete(SHORT) == [exact]
    assert RunRecords(others).complete(SHORT) == [long]
    assert RunRecords(others).exact(SHORT) == []
    wider = change(SHORT, {"model.channels": 64})
    assert RunRecords(others).complete(wider) == []


def test_runs_with_fewer_epochs_are_not_complete():
    assert RunRecords([run_record(SHORT), run_record(SHORTER)]).complete(ZINC) == []


def test_a_shorter_run_may_also_lower_the_learning_rate_earlier():
    record = run_record(change(ZINC, {"train.epochs": 62, "train.step": 10}))
    records = RunRecords([record, run_record(SHORT)])
    assert records.any_length(ZINC, least=62) == [record]
    assert records.any_length(ZINC, least=63) == []


def test_a_shorter_run_may_also_have_a_shorter_warm_up():
    warm = change(ZINC, {"train.warm_up": 10})
    record = run_record(
        change(ZINC, {"train.epochs": 62, "train.step": 10, "train.warm_up": 2})
    )
    assert RunRecords([record]).any_length(warm) == [record]
    assert RunRecords([record]).any_length(ZINC) == []
    longer = run_record(change(ZINC, {"train.epochs": 620}))
    for warm_up in (1, 10):
        wanted = change(ZINC, {"train.warm_up": warm_up})
        assert RunRecords([longer, run_record(ZINC)]).complete(wanted) == []


def test_runs_with_another_schedule_are_no_shorter_or_longer_runs():
    often = change(ZINC, {"train.step": 5})
    for length in ({}, {"train.epochs": 2 * ZINC.train.epochs}):
        record = run_record(change(ZINC, length))
        assert RunRecords([record]).complete(often) == []
        assert RunRecords([record]).complete(change(ZINC, {"train.epochs": 9}))
    other = {"train.schedule": "cosine"}
    record = run_record(change(ZINC, other))
    assert RunRecords([record]).complete(change(often, other)) == [record]


def test_records_from_before_an_option_was_there_count_as_its_default():
    record = run_record(ZINC, cell="of another time")
    del record["config"]["model"]["plain_conv"]
    assert RunRecords([record]).exact(ZINC) == [record]


def test_records_that_cannot_be_read_any_more_are_left_out():
    record = run_record(ZINC)
    record["config"]["model"]["colour"] = "red"
    assert RunRecords([record, {"kind": "dataset"}]).exact(ZINC) == []


def test_read_takes_all_run_files_of_a_folder(tmp_path):
    write_records(tmp_path, [run_record(ZINC, 0)])
    write_records(tmp_path, [run_record(ZINC, 1)], "runs-gpu.jsonl")
    assert len(RunRecords.read(tmp_path).exact(ZINC)) == 2
    assert RunRecords.read(tmp_path / "not there").records == []


def test_summary_of_costs_names_the_device():
    records = RunRecords([run_record(ZINC, seed) for seed in range(3)])
    found = tables.plan_summary(plan("ZINC-12K (s an epoch)", "GIN-AK+"), records)
    assert (found.mean, found.deviation, found.note) == (2.0, None, "on abacus")
    found = tables.plan_summary(plan("ZINC-12K (MB)", "GIN-AK+"), records)
    assert found.mean == 1234.5
    assert tables.plan_summary(plan("CIFAR10 (MB)", "GIN-AK+"), records) is None


def test_tables_show_an_undefined_score_and_say_so():
    record = run_record(GOOD)
    record["scores"]["test"] = None
    filled = fill_table(SMALL, RunRecords([record]))
    cell = filled.rows[1][0]
    assert cell.text == "undefined [a] (0.080)"
    assert cell.verdict is None
    assert json.loads(json.dumps(cell.as_dict(), allow_nan=False))["mean"] is None
    assert "undefined in 1 of 1 runs" in filled.footnotes[0][1]


def test_fill_tables_builds_one_estimator_for_all_tables_and_only_if_needed(
    monkeypatch,
):
    built = []
    real = tables.Estimator
    monkeypatch.setattr(
        tables, "Estimator", lambda *a, **o: built.append(a) or real(*a, **o)
    )
    tables.fill_tables([SMALL, SMALL], records())
    assert len(built) == 1
    tables.fill_tables([SMALL], records(run_record(IMAGES, test=0.75)))
    assert len(built) == 1

from gnnak.report.cells import load_table
from gnnak.report.tables import (
    measure_dataset,
    unmeasured,
)
from gnnak.training.records.lookup import STATISTICS, RunRecords, read_statistics
from tests.report.hand_records import write_records
from tests.report.small_table import fill_table

MUTAG = {"graphs": "188", "nodes": 17.93, "edges": 19.79, "outputs": 2}


def test_measure_dataset_appends_its_description(tmp_path):
    record = measure_dataset("csl", tmp_path)
    assert read_statistics(tmp_path)["csl"] == record
    assert (record["graphs"], record["nodes"], record["edges"]) == ("150", 41.0, 164.0)


def test_measure_dataset_does_not_count_stand_in_targets(tmp_path, data_dir):
    assert measure_dataset("counting", tmp_path)["outputs"] == 4


def test_statistics_are_printed_with_the_papers(tmp_path):
    old = MUTAG | {"kind": "dataset", "name": "mutag", "nodes": 0.0}
    new = MUTAG | {"kind": "dataset", "name": "mutag"}
    known = read_statistics(write_records(tmp_path, [old, new], STATISTICS))
    table = load_table("datasets")
    assert "mutag" not in unmeasured(table, known)
    assert unmeasured(table, known)[:2] == ["exp", "sr25"]
    filled = fill_table(table, RunRecords([]), known)
    row = next(row for row in filled.body if row[0] == "MUTAG")
    assert row == ["MUTAG", "2 (2)", "188 (188)", "17.93 (17.93)", "19.79 (19.79)"]
    assert filled.body[0][2] == "(1200)"

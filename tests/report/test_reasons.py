from dataclasses import replace

import pytest

from gnnak.report.cells import Cell, Style, load_table, table_names
from gnnak.report.tables import SHORTENED, _known, reason_of, remarks_on
from gnnak.training.records.summary import Summary
from tests.report.hand_records import run_record
from tests.report.small_table import GOOD, SMALL, fill_table, plan, records

ERROR = Cell("GIN", "Star (MAE)", "0.10", Style(2))
LABEL = Cell("GIN", "Connected, legacy label (log10 MSE)", "-2.00", Style(2))


def runs(*values, lower_is_better=True):
    mean = sum(values) / len(values)
    return Summary(mean, None, len(values), "", lower_is_better, values)


@pytest.mark.parametrize("ours", [runs(0.1), runs(0.05), Summary(None, None, 0)])
def test_a_cell_that_is_not_worse_has_no_reason(ours):
    assert reason_of(ERROR, ours) is None
    assert remarks_on([(ERROR, ours)]) == []


def test_runs_that_differ_are_shown_if_one_of_them_agrees_with_the_paper():
    reason = reason_of(ERROR, runs(0.2, 0.101))
    assert reason is not None
    assert "(0.20, 0.10)" in reason


def test_folds_differ_anyway_so_one_that_agrees_is_no_reason():
    folds = replace(ERROR, plan=replace(plan(GOOD), folds=2))
    assert reason_of(folds, runs(0.2, 0.101)) is None


def test_runs_that_are_all_worse_have_no_reason_unless_one_is_known():
    assert reason_of(ERROR, runs(0.2, 0.12)) is None
    assert remarks_on([(ERROR, runs(0.2))]) == []
    known = reason_of(LABEL, runs(-1.0))
    assert known == _known()["Connected, legacy label"]


def test_a_shortened_run_is_the_reason_even_if_another_one_is_known():
    assert reason_of(ERROR, replace(runs(0.2), shortened=True)) == SHORTENED
    assert reason_of(LABEL, replace(runs(-1.0), shortened=True)) == SHORTENED
    assert reason_of(ERROR, replace(runs(0.1), shortened=True)) is None


def test_scores_that_are_to_be_high_are_compared_that_way():
    accuracy = Cell("GIN", "EXP (ACC)", "90", Style(0, percent=True))
    ours = runs(0.5, 0.9, lower_is_better=False)
    assert "(50, 90)" in (reason_of(accuracy, ours) or "")


def test_a_remark_names_all_cells_of_its_reason():
    other = Cell("SAGE", LABEL.column, "-2.00", Style(2))
    worse = [(ERROR, runs(0.2)), (LABEL, runs(-1.0)), (other, runs(-1.0))]
    (remark,) = remarks_on(worse)
    assert remark.startswith(f"▼ {LABEL.title}; {other.title}: ")


def test_a_table_counts_shortened_and_explained_cells_and_shows_reasons_below():
    unlucky = run_record(GOOD, 1, test=0.2)
    filled = fill_table(SMALL, records(unlucky))
    counts = filled.counts
    assert (counts.worse, counts.shortened, counts.explained) == (2, 1, 1)
    assert any("(0.081, 0.200)" in remark for remark in filled.remarks)


def test_every_reason_belongs_to_a_cell_of_a_table():
    tables = [load_table(name) for name in table_names()]
    titles = [c.title for table in tables for row in table.rows for c in row]
    for text in _known():
        assert any(text in title for title in titles), text

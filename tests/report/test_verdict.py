import pytest

from gnnak.report.cells import Cell, Style, load_table, table_names
from gnnak.report.tables import compare, parse_number
from gnnak.training.records.summary import Summary


def verdict(paper, ours, lower=True, percent=False):
    cell = Cell("GIN", "ZINC", paper, Style(3, percent))
    return compare(cell, Summary(ours, None, 1, lower_is_better=lower))


@pytest.mark.parametrize(
    ("ours", "expected"),
    [(0.0779, "better"), (0.078, "within"), (0.082, "within"), (0.0821, "worse")],
)
def test_two_deviations_agree_where_the_paper_gives_one(ours, expected):
    assert verdict("0.080 ± 0.001", ours) == expected


@pytest.mark.parametrize(
    ("ours", "expected"), [(0.51, "worse"), (0.5701, "within"), (0.64, "better")]
)
def test_five_percent_agree_where_the_paper_gives_no_deviation(ours, expected):
    assert verdict("60.00%", ours, lower=False, percent=True) == expected


def test_a_deviation_of_zero_leaves_half_a_unit_of_the_last_digit():
    assert verdict("0.082 ± 0.000", 0.0824) == "within"
    assert verdict("0.082 ± 0.000", 0.0826) == "worse"


def test_negative_numbers_are_compared_by_size():
    assert verdict("-2.0000", -2.05) == "within"
    assert verdict("-2.0000", -2.2) == "better"
    assert verdict("-2.0000", -1.8) == "worse"


def test_a_cell_without_the_papers_number_has_no_verdict():
    assert verdict(None, 0.1) is None
    assert verdict("OOM", 0.1) == "better"


@pytest.mark.parametrize("name", table_names())
def test_all_numbers_of_the_paper_can_be_read(name):
    cells = [cell for row in load_table(name).rows for cell in row]
    texts = {cell.paper for cell in cells if cell.plan and cell.paper}
    unread = {text for text in texts if parse_number(text) is None}
    assert unread <= {"OOM"}


def test_an_undefined_score_has_no_verdict():
    assert verdict("0.080 ± 0.001", None) is None
    assert verdict("OOM", None) is None

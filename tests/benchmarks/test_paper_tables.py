import pytest

from benchmarks.paper_tables import agreement_summary, paper_tables
from gnnak.report.cells import load_table, table_names

pytestmark = pytest.mark.slow


def test_every_table_is_rendered_whole():
    tables = paper_tables()
    for name in table_names():
        if name == "datasets":
            continue
        shown = tables[f"paper_{name.replace('-', '_')}"]()
        for column in load_table(name).columns:
            assert f"| {column} |" in shown
        for row in load_table(name).rows:
            assert f"| {row[0].row} |" in shown


def test_the_summary_adds_up():
    rows = [line.split("|")[2:7] for line in agreement_summary().splitlines()[2:]]
    *tables, total = [[int(number) for number in row] for row in rows]
    assert [sum(column) for column in zip(*tables, strict=True)] == total

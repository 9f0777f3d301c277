import copy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnak.training.config.run_config import RunConfig
from gnnak.training.records import schema
from gnnak.training.records.lookup import RunRecords
from gnnak.training.records.results import read_records
from gnnak.training.records.schema import problem
from tests.report.hand_records import run_record
from tests.report.small_table import SMALL, fill_table

RECORD = run_record(RunConfig())
RESULTS = Path(__file__).parents[3] / "results"
OTHER = st.sampled_from([None, -1, 0, 1e308, 10**400, "", "x", True, [], [None], {}])


def changed(name, value):
    """Return a record in which one value is replaced, or removed if it is None."""
    record = copy.deepcopy(RECORD)
    *path, last = name.split(".")
    inner = record
    for key in path:
        inner = inner[key]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return record


def test_problem_is_empty_for_every_record_of_the_repository():
    for path in RESULTS.glob("*.jsonl"):
        wanted = {
            "subgraph_drop": schema.DROP,
            "drop_quality": schema.QUALITY,
            "extraction": schema.EXTRACTION,
        }.get(path.stem)
        assert read_records(path, wanted)  # warnings are errors here


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("config", None, "lacks config.data"),
        ("config.model.name", None, "lacks config.model.name"),
        ("scores.validation", None, "lacks scores.validation"),
        ("scores", 3, "lacks scores.validation"),
        ("curves.validation", [], "has a wrong curves.validation"),
        ("curves.validation", [0.5, "x"], "has a wrong curves.validation"),
        ("seed", True, "has a wrong seed"),
        ("fold", "1", "has a wrong fold"),
        ("epochs", 0, "has a wrong epochs"),
        ("versions", [1], "has a wrong versions"),
    ],
)
def test_problem_names_the_first_wrong_value(name, value, told):
    assert problem(changed(name, value)) == told


def test_problem_ignores_unknown_kinds_and_allows_an_undefined_test_score():
    assert problem({"kind": "new"}) == problem({"kind": [1]}) == problem({}) == ""
    assert problem(changed("scores.test", None)) == ""
    assert problem({"case": "a"}, schema.EXTRACTION) == "lacks seconds.gnnak"


NAMES = [name for name in schema.RUN if schema._value(RECORD, name) is not None]


@given(st.sampled_from([*NAMES, *RECORD]), OTHER)
def test_problem_finds_all_records_that_a_table_cannot_show(name, value):
    record = changed(name, value)
    if not problem(record):
        assert fill_table(SMALL, RunRecords([record, RECORD]))

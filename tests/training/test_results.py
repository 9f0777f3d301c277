import json

import pytest

from gnnak.errors import FileFormatError
from gnnak.training.results import append_record, environment, read_records


def test_append_record_keeps_what_was_there(tmp_path):
    path = tmp_path / "deep" / "runs.jsonl"
    append_record(path, {"metric": 0.5})
    append_record(path, {"metric": 0.25, "seed": 1})
    assert read_records(path) == [{"metric": 0.5}, {"metric": 0.25, "seed": 1}]
    assert len(path.read_text().splitlines()) == 2


def test_append_record_writes_no_half_line(tmp_path):
    path = tmp_path / "runs.jsonl"
    with pytest.raises(ValueError, match="not JSON compliant"):
        append_record(path, {"metric": float("nan")})
    assert read_records(path) == []


def test_read_records_names_a_broken_line(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(FileFormatError, match=r"runs.jsonl, line 2: not a JSON record"):
        read_records(path)


def test_environment_is_json_and_names_versions():
    told = json.loads(json.dumps(environment()))
    assert {"device", "versions", "commit", "time"} <= told.keys()
    assert told["versions"]["torch"]

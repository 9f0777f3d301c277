import json

import pytest

from gnnak.errors import FileFormatError
from gnnak.training.records import results
from gnnak.training.records.results import (
    append_record,
    check_appendable,
    environment,
    read_records,
)


def test_append_record_keeps_earlier_records(tmp_path):
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


def test_append_record_on_a_full_disk_leaves_the_file_unchanged(tmp_path, monkeypatch):
    path = tmp_path / "runs.jsonl"
    append_record(path, {"metric": 1})
    whole = results._write_whole

    class Full:
        def __init__(self, file):
            self.file, self.truncate, self.tell = file, file.truncate, file.tell

        def write(self, line):
            return self.file.write(line[:5])

    monkeypatch.setattr(results, "_write_whole", lambda f, line: whole(Full(f), line))
    with pytest.raises(
        FileFormatError, match="No space left on device; free disk space"
    ):
        append_record(path, {"metric": 2})
    assert read_records(path) == [{"metric": 1}]


def test_check_appendable_explains_an_impossible_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileFormatError, match="file cannot be made: File exists"):
        check_appendable(tmp_path / "file" / "runs.jsonl")
    with pytest.raises(FileFormatError, match="cannot be written: Is a directory"):
        check_appendable(tmp_path)


def test_read_records_reports_the_number_of_a_broken_line(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(FileFormatError, match=r"runs.jsonl, line 2: not a JSON record"):
        read_records(path)


def test_environment_ignores_repositories_of_other_projects(monkeypatch, tmp_path):
    monkeypatch.delenv("GNNAK_COMMIT", raising=False)
    place = tmp_path / "site-packages" / "gnnak" / "training" / "records" / "results.py"
    monkeypatch.setattr(results, "__file__", str(place))
    assert environment()["commit"] is None
    monkeypatch.setenv("GNNAK_COMMIT", "abc")
    assert environment()["commit"] == "abc"


def test_environment_is_json_with_versions():
    told = json.loads(json.dumps(environment()))
    assert {"device", "versions", "commit", "time"} <= told.keys()
    assert told["versions"]["torch"]

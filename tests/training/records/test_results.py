import json
import subprocess
import sys
import warnings

import pytest

from gnnak.errors import DamagedFileWarning, FileFormatError
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
    with pytest.raises(FileFormatError, match="cannot be written: Not a directory"):
        check_appendable(tmp_path / "file" / "runs.jsonl")
    with pytest.raises(FileFormatError, match="cannot be written: Is a directory"):
        check_appendable(tmp_path)


def test_check_appendable_leaves_no_file_behind(tmp_path):
    path = tmp_path / "results" / "new" / "runs.jsonl"
    check_appendable(path)
    assert list(tmp_path.iterdir()) == []
    append_record(path, {"seed": 0})
    check_appendable(path)
    assert read_records(path) == [{"seed": 0}]


def test_append_record_begins_a_new_line_after_a_torn_one(tmp_path):
    path = tmp_path / "runs.jsonl"
    append_record(path, {"seed": 0})
    whole = path.read_bytes()
    for length in range(1, len(whole)):
        path.write_bytes(whole + whole[:length])
        append_record(path, {"seed": 1})
        kept = [{"seed": 0}, {"seed": 1}]
        if length == len(whole) - 1:  # only the line break was lost
            kept.insert(0, {"seed": 0})
            assert read_records(path) == kept
            continue
        with pytest.warns(DamagedFileWarning, match=r"runs.jsonl, line 2 is not valid"):
            assert read_records(path) == kept


@pytest.mark.slow
def test_append_record_of_several_processes_loses_nothing(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b'{"torn": ')
    code = (
        "import sys; from pathlib import Path;"
        "from gnnak.training.records.results import append_record;"
        "path, by = Path(sys.argv[1]), sys.argv[2];"
        "[append_record(path, {'by': by, 'n': n, 'x': 'y' * 9999}) for n in range(50)]"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(number)])
        for number in range(3)
    ]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    with pytest.warns(DamagedFileWarning, match="line 1 is not valid JSON"):
        found = read_records(path)
    for number in range(3):
        assert [r["n"] for r in found if r["by"] == str(number)] == list(range(50))


def test_read_records_skips_damaged_lines_and_names_them(tmp_path):
    path = tmp_path / "runs.jsonl"
    lines = [
        b'{"a": 1}',
        b'{"a": ',
        b"",
        b"\xff\xfe",
        b"[1]",
        b'{"a": 2}',
        b'{"kind":"run"}',
    ]
    path.write_bytes(b"\n".join(lines))
    with pytest.warns(DamagedFileWarning) as told:
        assert read_records(path) == [{"a": 1}, {"a": 2}]
    assert [str(each.message) for each in told] == [
        f"{path}, line 2 is not valid JSON; the line is skipped.",
        f"{path}, line 4 is not UTF-8 text; the line is skipped.",
        f"{path}, line 5 is not a JSON object; the line is skipped.",
        f"{path}, line 7 lacks config.data; the line is skipped.",
    ]


def test_read_records_finds_whole_records_in_a_damaged_line(tmp_path):
    path = tmp_path / "runs.jsonl"
    for seed in range(3):
        append_record(path, {"seed": seed})
    path.write_bytes(path.read_bytes().replace(b"\n", b"\v", 1))
    with pytest.warns(DamagedFileWarning, match="except for 2 whole records in it"):
        assert [record["seed"] for record in read_records(path)] == [0, 1, 2]


def test_read_records_has_right_values_after_every_bit_flip(tmp_path):
    path = tmp_path / "runs.jsonl"
    written = [{"seed": seed, "score": 0.25 + seed} for seed in range(3)]
    for record in written:
        append_record(path, record)
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamagedFileWarning)
            found = read_records(path)
        names = dict.fromkeys(("seed", "score"))
        found = [{name: record.get(name) for name in names} for record in found]
        assert all(record in written for record in found)
        assert len(found) >= 2


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

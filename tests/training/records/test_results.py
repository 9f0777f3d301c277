import json
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnak.datasets.record import Dataset
from gnnak.errors import DamagedFileWarning, FileFormatError
from gnnak.training.config.run_config import RunConfig
from gnnak.training.records import results
from gnnak.training.records.results import (
    BEGIN,
    append_record,
    check_appendable,
    environment,
    fingerprint,
    from_line,
    read_records,
    to_line,
    whole_records,
)
from tests.report.hand_records import run_record
from tests.training.small import edge_counts, triangles


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


def test_append_record_writes_a_key_once_also_from_several_threads(tmp_path):
    path = tmp_path / "runs.jsonl"
    lost = to_line({"key": "0", "x": 0}).replace(b'"x": 0', b'"x": 7')
    path.write_bytes(lost)
    records = [{"key": str(n % 10), "x": n // 10} for n in range(100)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(partial(append_record, path), records))
    append_record(path, {"key": "new", "of": "0"})
    append_record(path, {"key": "of"})
    with pytest.warns(DamagedFileWarning, match="line 1 has a wrong checksum"):
        found = [record["key"] for record in read_records(path)]
    assert sorted(found) == sorted([*map(str, range(10)), "new", "of"])


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
        f"{path}, line 7 lacks config; the line is skipped.",
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


RESULTS = Path(__file__).parents[3] / "results"
RECORD = {"seed": 3, "b": {"y": 0.25, "x": [1.5, None]}, "name": "é", "big": 2**70}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_to_line_begins_with_the_checksum_and_is_one_line():
    line = to_line(RECORD)
    assert line.startswith(BEGIN)
    assert line.index(b"\n") == len(line) - 1
    assert from_line(line) == RECORD


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.jsonl")), ids=lambda p: p.stem)
def test_recorded_lines_are_written_again_byte_for_byte(path):
    lines = path.read_bytes().splitlines(keepends=True)
    sealed = [line for line in lines if line.startswith(BEGIN)]
    assert [to_line(from_line(line)) for line in sealed] == sealed


@given(st.dictionaries(st.text().map("key {}".format), VALUES, max_size=4))
def test_from_line_reads_what_to_line_wrote(record):
    try:
        line = to_line(record)
    except ValueError:  # an infinite number
        return
    assert from_line(line) == record
    assert whole_records(b'{"torn": [' + line + b"\xff") == [record]


def test_from_line_gets_the_same_values_or_an_error_after_every_bit_flip():
    line = to_line(RECORD).rstrip()
    for bit in range(8 * len(line)):
        changed = bytearray(line)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            found = from_line(bytes(changed))
        except ValueError:
            continue
        assert RECORD.items() <= found.items()


def test_from_line_reads_lines_that_were_reformatted():
    content = json.loads(to_line(RECORD))
    backwards = dict(reversed(content.items()))
    line = json.dumps(backwards, indent=1, ensure_ascii=False).replace("\n", " ")
    assert from_line(line.encode()) == RECORD


def test_from_line_reads_an_empty_record():
    assert from_line(to_line({})) == {}


def test_from_line_reads_lines_without_a_checksum():
    assert from_line(b' {"a": 1} \r') == {"a": 1}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"a": ', "is not valid JSON"),
        (b'{"a": NaN}', "is not valid JSON"),
        (b"[" * 100_000, "is not valid JSON"),
        (b"9" * 5000, "is not valid JSON"),
        (b'{"a": "\xff"}', "is not UTF-8 text"),
        (b"[1]", "is not a JSON object"),
        (b"null", "is not a JSON object"),
        (b'{"checksum": "0", "a": 1}', "has a wrong checksum"),
        (b'{"checksum": 5, "a": 1}', "has a wrong checksum"),
    ],
)
def test_from_line_says_what_is_wrong(line, told):
    with pytest.raises(ValueError, match=told):
        from_line(line)


def test_whole_records_finds_both_records_around_a_lost_line_break():
    first, second = to_line(RECORD).rstrip(), to_line({"seed": 4})
    assert whole_records(first + b"\x8a" + second) == [RECORD, {"seed": 4}]
    assert whole_records(first[:40] + second) == [{"seed": 4}]
    assert whole_records(b'{"a": 1') == []


def test_a_damaged_key_of_the_checksum_does_not_become_part_of_the_record():
    record = {"kind": "run", "seed": 3}
    line = to_line(record).replace(b'"checksum"', b'"chgcksum"')
    assert from_line(line) == record
    assert from_line(b'{"kind": "run", "seed": 3}\n') == record
    assert from_line(b"{}") == {}


def with_store(data: Dataset, **changes) -> Dataset:
    return replace(data, store=replace(data.store, **changes))


def test_fingerprint_is_the_same_for_equal_data():
    assert fingerprint(triangles()) == fingerprint(triangles())
    renamed = replace(triangles(), info=replace(triangles().info, name="other"))
    assert fingerprint(renamed) == fingerprint(triangles())
    assert len(fingerprint(triangles())) == 16


def test_fingerprint_depends_on_every_field():
    data = edge_counts()
    store = data.store
    assert store.y is not None
    assert store.x is not None
    assert data.split is not None
    edges = store.edge_index.clone()
    edges[0, 0], edges[0, 1] = store.edge_index[0, 1], store.edge_index[0, 0]
    others = [
        with_store(data, y=store.y + 100),
        with_store(data, y=store.y.double()),
        with_store(data, y=store.y[:, None]),
        with_store(data, x=store.x.flip(0)),
        with_store(data, edge_index=edges.flip(0)),
        with_store(data, num_nodes=store.num_nodes.flip(0)),
        with_store(data, num_edges=store.num_edges.flip(0)),
        with_store(data, edge_attr=torch.zeros(edges.size(1), 1)),
        replace(data, split=data.split.roll(1)),
        replace(data, folds=torch.zeros(2, len(store), dtype=torch.long)),
        edge_counts(20),
    ]
    assert len({fingerprint(each) for each in [data, *others]}) == 1 + len(others)


@pytest.mark.parametrize("chunk", [8, 1 << 24])
def test_fingerprint_sees_one_changed_byte_in_any_chunk(chunk, monkeypatch):
    monkeypatch.setattr(results, "CHUNK", chunk)
    data = triangles(2)
    y = data.store.y
    assert y is not None
    found = {fingerprint(data)}
    for place in range(len(y)):
        changed = y.clone()
        changed[place] += 1
        found.add(fingerprint(with_store(data, y=changed)))
    assert len(found) == 1 + len(y)


def test_fingerprint_of_a_data_set_without_graphs():
    assert fingerprint(triangles().subset(torch.arange(0)))


def test_all_records_of_the_repository_are_read():
    for path in (Path(__file__).parents[3] / "results").glob("*.jsonl"):
        assert read_records(path)  # warnings are errors here


@pytest.mark.parametrize("key", ["config", "seed", "curves"])
def test_records_that_lack_a_value_are_skipped(key, tmp_path):
    whole = run_record(RunConfig())
    append_record(tmp_path / "runs.jsonl", whole)
    append_record(tmp_path / "runs.jsonl", {k: whole[k] for k in whole if k != key})
    with pytest.warns(DamagedFileWarning, match=f"line 2 lacks {key}; the line is"):
        assert read_records(tmp_path / "runs.jsonl") == [whole]

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnak.training.records.results import BEGIN, from_line, to_line, whole_records

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

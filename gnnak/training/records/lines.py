"""Convert a record to a line of JSON text and back, with a checksum against damage.

Every line begins with the key `checksum`: a hash of the other values of the record. A
line with a changed byte is therefore recognised as damaged, and a whole record can be
found inside a damaged line. Lines without a checksum, from older versions, are read
too.
"""

import hashlib
import json
from typing import Any, NoReturn

Record = dict[str, Any]
"""The config, results and environment of a run or a benchmark, as a dict that can be
written as one line of JSON."""
CHECKSUM = "checksum"
"""The first key of every line."""
BEGIN = b'{"checksum": "'
"""The first bytes of every line."""
DIGITS = 16
"""Number of hexadecimal digits of a checksum."""


def to_line(record: Record) -> bytes:
    """Return a record as one line of JSON text, with a checksum and a line break.

    Raises:
        ValueError: If the record contains NaN or infinite numbers.
    """
    text = _plain_text(record).encode()
    comma = b", " if record else b""
    return BEGIN + _checksum(text) + b'"' + comma + text[1:] + b"\n"


def from_line(line: bytes) -> Record:
    """Read a record from a line, and remove the checksum from the record.

    Raises:
        ValueError: If the line is damaged. The message says what is wrong, in words
            that follow "the line".
    """
    try:
        content = json.loads(line.decode(), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise ValueError("is not UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        raise ValueError("is not valid JSON") from error
    return _checked(content, line)


def whole_records(line: bytes) -> list[Record]:
    """Return the undamaged records inside a damaged line, oldest first.

    A line contains several records if the line break between two records is missing.
    Only records with a checksum can be found.
    """
    found = []
    for rest in line.split(BEGIN)[1:]:
        text = (BEGIN + rest).decode(errors="replace")
        try:
            content, _ = json.JSONDecoder(parse_constant=_refuse).raw_decode(text)
            found.append(_checked(content))
        except (ValueError, RecursionError):
            continue
    return found


def _checked(content: Any, line: bytes = b"") -> Record:
    """Return a record without its checksum, after verifying the checksum.

    If the line is as `to_line` wrote it, the checksum is that of its bytes. Otherwise,
    for example after another program has reformatted it, the record is written again.
    """
    if not isinstance(content, dict):
        raise ValueError("is not a JSON object")
    told = content.pop(CHECKSUM, None)
    if told is None:
        return _without_damaged_key(content)
    if told == _checksum_of_bytes(line):
        return content
    if told != _checksum(_plain_text(content).encode()).decode():
        raise ValueError("has a wrong checksum, so a value in it has changed")
    return content


def _without_damaged_key(content: Record) -> Record:
    """Return a record without a checksum; remove a checksum whose key is damaged.

    If the first value is the checksum of the others, its key was `checksum` before it
    was damaged, and all other values are as they were written.
    """
    first = next(iter(content), "")
    others = {key: value for key, value in content.items() if key != first}
    expected = _checksum(_plain_text(others).encode()).decode()
    return others if content.get(first) == expected else content


def _checksum_of_bytes(line: bytes) -> str:
    """Return the checksum of the bytes of a line, without the checksum in it."""
    before = len(BEGIN) + DIGITS + len(b'", ')
    return _checksum(b"{" + line.strip()[before:]).decode()


def _plain_text(record: Record) -> str:
    """Return a record as JSON text that does not depend on the order of its keys."""
    return json.dumps(record, sort_keys=True, allow_nan=False)


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:DIGITS].encode()


def _refuse(constant: str) -> NoReturn:
    """Refuse `NaN` and `Infinity`, which Python reads but JSON does not allow."""
    raise ValueError(f"{constant} is not a JSON value")

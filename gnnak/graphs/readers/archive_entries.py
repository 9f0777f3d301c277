"""Refuse npz files whose list of arrays is damaged.

A zip file, such as an npz file, ends with a list of its members. Python's `zipfile`
does not notice if damage to this list hides members.
"""

import zipfile
from typing import IO

from gnnak.errors import GraphError

END = b"PK\x05\x06"
"""The first bytes of the record at the end of a zip file."""
END_BYTES = 22
"""Number of bytes of that record; a comment of at most 2^16 bytes may follow."""
MANY = 0xFFFF
"""The count of a file with this many members or more, which is stored elsewhere."""


def check_entries(content: IO[bytes]) -> None:
    """Raise `GraphError` if members of a zip file are missing from its list.

    Args:
        content: The zip file, open for reading.
    """
    size = content.seek(0, 2)
    content.seek(max(0, size - END_BYTES - MANY))
    tail = content.read()
    place = tail.rfind(END)
    announced = int.from_bytes(tail[place + 10 : place + 12], "little")
    with zipfile.ZipFile(content) as archive:
        found = len(archive.infolist())
    if place < 0 or (announced != MANY and announced != found):
        raise GraphError(
            f"it lists {found} arrays, but should have {announced}; the file is "
            "damaged, copy it again"
        )

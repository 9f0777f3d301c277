import io
import zipfile

import pytest

from gnnak.errors import GraphError
from gnnak.graphs.readers.npz import check_entries


def archive(names: list[str], comment: bytes = b"") -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name in names:
            file.writestr(name, b"content")
        file.comment = comment
    return content.getvalue()


@pytest.mark.parametrize("names", [[], ["a"], ["a", "b", "c"]])
@pytest.mark.parametrize("comment", [b"", b"a comment"])
def test_a_whole_archive_is_accepted(names, comment):
    check_entries(io.BytesIO(archive(names, comment)))


def test_a_member_that_damage_hides_is_noticed():
    content = bytearray(archive(["a", "b"]))
    # The length of the comment of "a" in the list: its "comment" then hides "b".
    place = content.index(b"PK\x01\x02") + 32
    content[place] += 47
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as file:
        assert file.namelist() == ["a"]
    with pytest.raises(GraphError, match="it lists 1 arrays, but should have 2"):
        check_entries(io.BytesIO(bytes(content)))

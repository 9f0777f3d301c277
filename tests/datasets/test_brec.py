import numpy as np
import pytest

from gnnak.brec.data import FILE_NAME, GROUPS, load_brec
from gnnak.errors import FileFormatError


def write(folder, **changes):
    """Write a file in the layout of BREC, in which every graph is an edge."""
    tables = {key: np.full((count, 2), b"A_") for key, count in GROUPS.values()}
    np.savez(folder / FILE_NAME, **{**tables, **changes})
    return folder


def test_load_brec_reads_all_pairs_in_order(tmp_path):
    basic = np.full((60, 2), b"A_")
    basic[3] = b"Bw", b"B_"
    groups = load_brec(write(tmp_path, g6_basic=basic))
    assert {name: len(pairs) for name, pairs in groups.items()} == {
        "basic": 60,
        "regular": 50,
        "strongly-regular": 50,
        "extension": 100,
        "cfi": 100,
        "4-vertex": 20,
        "distance-regular": 20,
    }
    (first, size), (second, _) = groups["basic"][3]
    assert size == 3
    assert first.tolist() == [[0, 1, 0, 2, 1, 2], [1, 0, 2, 0, 2, 1]]
    assert second.tolist() == [[0, 1], [1, 0]]


def test_load_brec_reads_the_real_file(data_dir):
    groups = load_brec(data_dir)
    largest = max(
        size for _, size in (graph for pair in groups["cfi"] for graph in pair)
    )
    assert largest == 198
    for pairs in groups.values():
        for (first, size), (second, other) in pairs:
            assert (size, first.size(1)) == (other, second.size(1))


def test_load_brec_says_what_is_wrong_with_a_file(tmp_path, no_data):
    with pytest.raises(FileFormatError, match=r"no file brec\.npz; put it into"):
        load_brec()
    with pytest.raises(FileFormatError, match=r"shape \[2, 2\] and dtype .*must be"):
        load_brec(write(tmp_path, g6_basic=np.full((2, 2), b"A_")))
    with pytest.raises(FileFormatError, match="line 1"):
        load_brec(write(tmp_path, g6_cfi=np.full((100, 2), b"A")))
    with pytest.raises(FileFormatError, match="has empty strings"):
        load_brec(write(tmp_path, g6_cfi=np.full((100, 2), b"")))
    (tmp_path / FILE_NAME).write_bytes(b"no zip file")
    with pytest.raises(FileFormatError, match="is not an npz file of BREC"):
        load_brec(tmp_path)
    np.savez(tmp_path / FILE_NAME, g6_basic=np.full((60, 2), b"A_"))
    with pytest.raises(FileFormatError, match=r"lacks a group: .*g6_regular"):
        load_brec(tmp_path)

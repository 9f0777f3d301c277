"""Exact counts on BREC; the expected counts are known from other implementations."""

import numpy as np
import pytest

from gnnak.brec import records as ceiling_module
from gnnak.brec.data import FILE_NAME, GROUPS, load_brec
from gnnak.brec.records import run_brec
from gnnak.errors import FileFormatError
from gnnak.graphs.named import four_regular_pair, rook, shrikhande
from gnnak.wl.bounds import Contender
from gnnak.wl.families import cycle_and_two

PAIRS = {
    "first": [four_regular_pair(), (rook(), shrikhande())],
    "second": [tuple(cycle_and_two(n)[:2]) for n in (6, 8)],
}
EASY = {"basic": 60, "regular": 50, "extension": 100}
ZERO = dict.fromkeys(("strongly-regular", "4-vertex", "distance-regular"), 0)


def swl(test, readout="vs", **options):
    return Contender(test, {"readout": readout, **options})


FIRST_FOUR = [("swl", "vs"), ("swl", "sv"), ("pswl", "vs"), ("pswl", "sv")]
FIRST_FOUR += [("gswl", "vs"), ("sswl", "vs")]


@pytest.fixture
def groups(data_dir):
    return load_brec(data_dir)


def counts(groups, contender, names):
    found = run_brec({name: groups[name] for name in names}, [contender])
    return {row.group: row.apart for row in found}


def test_run_brec_counts_pairs_of_each_group():
    seen = []
    rows = list(
        run_brec(PAIRS, [Contender("1-wl"), Contender("swl")], 2.0, seen.append)
    )
    assert [(row.group, row.apart, row.missed) for row in rows] == [
        ("first", 0, (0, 1)),
        ("second", 0, (0, 1)),
        ("first", 1, (1,)),
        ("second", 2, ()),
    ]
    assert sum(seen) == 8
    assert all(row.not_run == () and row.note == "" for row in rows)


def test_run_brec_gives_the_same_counts_pair_by_pair(monkeypatch):
    contenders = [Contender("1-wl"), Contender("sswl"), Contender("2-fwl")]
    together = [row.missed for row in run_brec(PAIRS, contenders)]
    monkeypatch.setattr(ceiling_module, "CHUNK_BYTES", 0)
    assert [row.missed for row in run_brec(PAIRS, contenders)] == together


def test_run_brec_lists_pairs_that_are_too_large():
    (row, _) = run_brec(PAIRS, [Contender("2-fwl")], max_memory=5e-4)
    assert (row.apart, row.missed, row.not_run) == (1, (), (1,))
    assert row.note.startswith("2-fwl needs about")


@pytest.mark.slow
@pytest.mark.parametrize("test", ["3-wl", "2-fwl"])
def test_tests_on_pairs_and_triples_distinguish_all_small_graphs(groups, test):
    assert counts(groups, Contender(test), EASY) == EASY


@pytest.mark.slow
def test_1_wl_distinguishes_no_pair(groups):
    assert counts(groups, Contender("1-wl"), groups) == dict.fromkeys(groups, 0)


@pytest.mark.slow
@pytest.mark.parametrize("variant", FIRST_FOUR, ids=str)
def test_ceilings_of_regular_graphs_are_the_known_ones(groups, variant):
    one_hop = 48 if variant == ("swl", "vs") else 49
    for options, wanted in (({}, 50), ({"num_hops": 1}, one_hop)):
        found = counts(groups, swl(*variant, **options), ["regular"])
        assert found == {"regular": wanted}


@pytest.mark.slow
@pytest.mark.parametrize("variant", FIRST_FOUR, ids=str)
def test_ceilings_of_all_but_cfi_are_the_known_ones(groups, variant):
    names = [name for name in groups if name != "cfi"]
    assert counts(groups, swl(*variant), names) == {**EASY, **ZERO}
    one_hop = {**EASY, **ZERO, "basic": 59, "regular": 49, "extension": 60}
    if variant == ("swl", "vs"):
        one_hop = {**one_hop, "regular": 48, "extension": 59}
    assert counts(groups, swl(*variant, num_hops=1), names) == one_hop


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "whole", "six_hops"),
    list(
        zip(FIRST_FOUR, (41, 50, 49, 50, 50, 57), (32, 41, 40, 41, 41, 46), strict=True)
    ),
    ids=lambda value: str(value),
)
def test_ceilings_of_cfi_are_the_known_ones(groups, variant, whole, six_hops):
    assert counts(groups, swl(*variant), ("cfi",)) == {"cfi": whole}
    assert counts(groups, swl(*variant, num_hops=6), ("cfi",)) == {"cfi": six_hops}


@pytest.mark.slow
def test_ceiling_of_2_fwl_is_60_pairs_of_cfi(groups):
    wanted = {"cfi": 60, **ZERO}
    assert counts(groups, Contender("2-fwl"), wanted) == wanted


@pytest.mark.slow
@pytest.mark.parametrize(("num_hops", "wanted"), [(1, 166), (2, 96), (3, 17)])
def test_counts_of_unmarked_swl_are_the_known_ones(groups, num_hops, wanted):
    contender = swl("swl", num_hops=num_hops, root_mark=False)
    assert sum(counts(groups, contender, groups).values()) == wanted


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


def test_load_brec_says_what_is_wrong_with_a_file(tmp_path, monkeypatch):
    monkeypatch.delenv("GNNAK_DATA", raising=False)
    monkeypatch.setenv("GNNAK_CACHE", str(tmp_path))
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

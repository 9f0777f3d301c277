import pytest

from gnnak.errors import OptionError
from gnnak.wl.families import FAMILIES, pairs_apart
from gnnak.wl.lab import LAB_CONTENDERS, LAB_FAMILIES, Contender, run_lab


@pytest.mark.heavy
def test_run_lab_gives_a_result_for_each_test_and_family():
    families = ["four-regular", "cycles", "srg16"]
    results = list(run_lab(families))
    assert len(results) == len(families) * len(LAB_CONTENDERS)
    assert [r.family for r in results[:: len(LAB_CONTENDERS)]] == families
    apart = {(r.family, r.contender): r.apart for r in results}
    assert apart["four-regular", "1-wl"] == 0
    assert apart["cycles", "3-wl"] == 10
    assert apart["srg16", "subgraph-1-wl (num_hops=1, hash=3-wl)"] == 1
    assert all(0 <= r.apart <= r.pairs for r in results)


def test_run_lab_leaves_out_what_is_too_large_with_a_note():
    (result,) = run_lab(["csl"], [Contender("3-fwl")], max_memory=0.1)
    assert (result.pairs, result.apart, result.rounds) == (45, None, None)
    assert "3-fwl needs about 2.9 GiB" in result.note


def test_contender_checks_its_options_at_once():
    with pytest.raises(OptionError, match="1-wl has no option 'd2c'"):
        Contender("1-wl", {"d2c": True})


def test_pairs_apart_counts_inside_groups_only():
    groups = [["a", "b"], ["c", "d", "e"]]
    assert pairs_apart(groups, [0, 1, 0, 0, 2]) == (4, 3)


def test_the_standard_table_holds_known_families_only():
    assert set(LAB_FAMILIES) < set(FAMILIES)

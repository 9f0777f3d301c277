import pytest

from gnnak.errors import OptionError
from gnnak.wl import partition
from gnnak.wl.bounds import Contender
from gnnak.wl.families import (
    FAMILIES,
    circulants,
    classes,
    cycle_and_two,
    family,
    pairs_apart,
    regular_pair,
    trees,
)
from gnnak.wl.lab import LAB_CONTENDERS, LAB_FAMILIES, run_lab


@pytest.mark.heavy
def test_1_wl_distinguishes_no_circulants_regular_pairs_or_cycles():
    groups = [circulants(12), list(regular_pair(12, 3, seed=1)), cycle_and_two(9)]
    for group in groups:
        assert len(set(classes(group))) == len(group)
        assert set(partition("1-wl", group)) == {0}
    with pytest.raises(OptionError, match="were isomorphic; raise num_nodes"):
        regular_pair(4, 3, seed=0)


def test_1_wl_distinguishes_all_trees():
    assert [len(trees(n)) for n in (7, 8, 9, 10)] == [11, 23, 47, 106]
    assert len(set(partition("1-wl", trees(9)))) == 47


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_built(name):
    assert all(num_nodes > 0 for group in family(name) for _, num_nodes in group)


def test_an_unknown_family_is_named_with_the_known_ones():
    with pytest.raises(OptionError, match="family is 'paley'; use one of: four-reg"):
        family("paley")


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
    with pytest.raises(OptionError, match="no option 'd2c' of 1-wl"):
        Contender("1-wl", {"d2c": True})


def test_pairs_apart_counts_inside_groups_only():
    groups = [["a", "b"], ["c", "d", "e"]]
    assert pairs_apart(groups, [0, 1, 0, 0, 2]) == (4, 3)


def test_the_standard_table_holds_known_families_only():
    assert set(LAB_FAMILIES) < set(FAMILIES)

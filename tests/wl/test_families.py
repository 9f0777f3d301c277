import pytest

from gnnak.errors import OptionError
from gnnak.wl import partition
from gnnak.wl.families import (
    FAMILIES,
    circulants,
    classes,
    cycle_and_two,
    family,
    regular_pair,
    trees,
)


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

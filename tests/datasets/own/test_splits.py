import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnak.datasets.own.splits import (
    check_split,
    column_split,
    random_split,
    scaffold_folds,
    scaffold_groups,
    scaffold_split,
)
from gnnak.errors import FileFormatError, GraphError, OptionError

RINGS = ["c1ccccc1C", "C1CC1O", "c1ccncc1", "C1CCCC1", "CCO", "CCN"]


@given(st.integers(3, 60), st.integers(0, 5))
def test_random_split_has_all_parts_and_the_right_shares(size, seed):
    count = random_split(size, seed).bincount(minlength=3)
    assert int(count.sum()) == size
    assert (count >= 1).all() or 5 > size % 10 > 0 < size // 10
    assert count[1:].max() <= -(-size // 10) or size < 10


def test_random_split_depends_on_the_seed_only():
    assert torch.equal(random_split(50, 1), random_split(50, 1))
    assert not torch.equal(random_split(50, 1), random_split(50, 2))


def test_random_split_gives_every_class_its_share():
    classes = torch.tensor([0] * 80 + [1] * 20)
    split = random_split(100, 0, classes)
    assert split[classes == 1].bincount().tolist() == [16, 2, 2]


def test_scaffold_groups_molecules_without_rings_are_one_group():
    assert [4, 5] in scaffold_groups(RINGS)
    assert scaffold_groups(["c1ccccc1C", "CCc1ccccc1"]) == [[0, 1]]


def test_scaffold_split_puts_no_scaffold_into_two_parts():
    smiles = RINGS * 5
    split = scaffold_split(smiles)
    assert set(split.tolist()) == {0, 1, 2}
    for group in scaffold_groups(smiles):
        assert len(set(split[group].tolist())) == 1


def test_scaffold_split_fills_every_part_if_it_can():
    split = scaffold_split(["CC"] * 98 + ["C1CC1", "C1CCC1"])
    assert split.bincount().tolist() == [98, 1, 1]


def test_scaffold_split_needs_three_scaffolds():
    with pytest.raises(OptionError, match="2 scaffolds"):
        scaffold_split(["CC", "CCC", "C1CC1"])


def test_scaffold_folds_have_one_test_fold_per_molecule():
    folds = scaffold_folds(RINGS, 3, seed=0)
    assert folds.sum(dim=0).tolist() == [1] * 6
    assert torch.equal(folds[:, 4], folds[:, 5])


def test_column_split_takes_usual_words_in_any_case():
    found = column_split("part", ["Train", "VAL", " test", "dev", "0"])
    assert found.tolist() == [0, 1, 2, 1, 0]
    with pytest.raises(FileFormatError, match="part has 'traim'; write train"):
        column_split("part", ["traim"])


@pytest.mark.parametrize("split", ["abc", [0, 1], [0, 1, 3], [0.0, 1.0, 2.0], [[0]]])
def test_check_split_refuses_anything_else(split):
    with pytest.raises((OptionError, GraphError), match="split"):
        check_split(split, 3)


def test_check_split_names_what_is_wrong():
    with pytest.raises(GraphError, match="split has other values; give 3 numbers"):
        check_split([0, 1, 3], 3)
    with pytest.raises(GraphError, match=r"split has shape \[2\]; give 3 numbers"):
        check_split([0, 1], 3)

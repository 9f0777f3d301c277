from dataclasses import replace

import pytest
import torch

from gnnak.datasets.record import Dataset
from gnnak.errors import OptionError
from gnnak.training.protocols import choose_parts, num_folds
from tests.training.small import triangles


def sets(parts):
    return [set(part.tolist()) for part in (parts.train, parts.validation, parts.test)]


def test_split_takes_the_parts_as_given():
    data = triangles(4)
    assert sets(choose_parts(data, "split")) == [{0, 1, 4, 5}, {2, 3}, {6, 7}]


def test_held_out_folds_never_train_on_what_they_score():
    data = triangles(4)
    tested = set()
    for fold in range(4):
        train, validation, test = sets(choose_parts(data, "held-out", fold))
        assert not train & validation
        assert not (train | validation) & test
        assert train | validation | test == set(range(8))
        tested |= test
    assert tested == set(range(8))
    assert num_folds(data, "held-out") == 4


def test_published_without_folds_scores_the_training_graphs():
    data = triangles(4)
    assert num_folds(data, "published") == 0
    assert sets(choose_parts(data, "published")) == [set(range(8))] * 3


def test_published_in_folds_chooses_by_the_test_fold():
    data = triangles(4)
    info = replace(data.info, published_in_folds=True)
    data = Dataset(info, data.store, folds=data.folds)
    train, validation, test = sets(choose_parts(data, "published", 1))
    assert validation == test == {2, 3}
    assert train == {0, 1, 4, 5, 6, 7}


@pytest.mark.parametrize("protocol", ["published", "held-out"])
def test_batch_statistics_are_used_only_by_the_published_protocol(protocol):
    data = triangles(4)
    data = Dataset(replace(data.info, batch_statistics=True), data.store)
    parts = choose_parts(data, protocol)
    assert parts.batch_statistics == (protocol == "published")
    assert sets(parts) == [set(range(8))] * 3


def test_folds_leave_out_unused_graphs():
    data = triangles(4)
    folds = data.folds.clone()
    folds[0, 7] = -1
    data = Dataset(data.info, data.store, folds=folds)
    parts = choose_parts(data, "held-out", 0)
    assert 7 not in torch.cat([parts.train, parts.validation, parts.test]).tolist()


@pytest.mark.parametrize(
    ("protocol", "fold", "sentence"),
    [
        ("held-out", None, "has 4 folds; say which"),
        ("held-out", 4, "data.fold is 4; triangles has 4 folds"),
        ("split", 0, "data.fold is 0, but triangles has no folds under the split"),
    ],
)
def test_choose_parts_explains_a_wrong_fold(protocol, fold, sentence):
    with pytest.raises(OptionError, match=sentence):
        choose_parts(triangles(4), protocol, fold)


def test_choose_parts_refuses_an_unknown_protocol():
    data = triangles(4)
    data = Dataset(replace(data.info, protocols=("split",)), data.store, data.split)
    with pytest.raises(OptionError, match="triangles has split: add --protocol split"):
        choose_parts(data, "published")

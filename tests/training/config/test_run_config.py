import math

import pytest

from gnnak import EgoNets, RandomWalks
from gnnak.errors import OptionError
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig, TrainConfig


def test_hash_depends_on_every_option():
    plain = RunConfig()
    for option in ({"train.seed": 1}, {"data.fold": 0}, {"model.drop.min_coverage": 2}):
        assert change(plain, option).hash() != plain.hash()
    assert change(plain, {"train.seed": 0}).hash() == plain.hash()


def test_cell_ignores_only_seed_and_fold():
    plain = RunConfig()
    assert change(plain, {"train.seed": 1, "data.fold": 3}).cell() == plain.cell()
    fewer = change(plain, {"train.epochs": 3})
    assert fewer.cell() != plain.cell()
    assert fewer.cell(("train.epochs",)) == plain.cell(("train.epochs",))


def test_to_dict_can_be_read_by_change():
    config = change(
        RunConfig(), {"model.encodings": ["context"], "data.target": "star"}
    )
    assert change(RunConfig(), config.to_dict()) == config


def test_subgraphs_are_egonets_or_walks():
    assert RunConfig().model.subgraphs.build() == EgoNets(3)
    walks = change(RunConfig(), {"model.subgraphs": {"kind": "walks", "length": 4}})
    assert walks.model.subgraphs.build() == RandomWalks(4, 5)


@pytest.mark.parametrize("name", ["learning_rate", "weight_decay", "clip"])
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_train_config_refuses_numbers_that_are_not_finite(name, value):
    with pytest.raises(
        OptionError, match=rf"train\.{name} is (inf|nan); give .*finite"
    ):
        TrainConfig(**{name: value})


def test_hash_leaves_out_added_options_at_their_default():
    plain = RunConfig()
    assert plain.hash() == "c10f537242f1"
    assert change(plain, {"train.recalibrate": False}).hash() == plain.hash()
    changed = change(plain, {"train.recalibrate": True})
    assert changed.hash() != plain.hash()
    assert changed.cell(("train.recalibrate",)) == plain.cell(("train.recalibrate",))

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from gnnak import EgoNets, PageRankNeighbors, RandomWalks
from gnnak.errors import OptionError
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig, TrainConfig

RECORDS = Path(__file__).parents[3] / "results" / "runs.jsonl"


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


def test_hash_of_recorded_configs_has_not_changed():
    """Hashes identify records: a new option at its default leaves them as they are."""
    assert RunConfig().hash() == "c10f537242f1"
    whole = {"kind": "egonets", "num_hops": 3}
    assert change(RunConfig(), {"model.subgraphs": whole}).hash() == "c10f537242f1"
    pairs = change(RunConfig(), {"model.family.pairs": ["rrwp"]})
    assert pairs.hash() == "4020ba63fc4d"
    same, other = (
        change(RunConfig(), {"train.recalibrate": on}) for on in (False, True)
    )
    assert same.hash() == "c10f537242f1" != other.hash()
    assert other.cell(("train.recalibrate",)) == same.cell(("train.recalibrate",))


def test_configs_with_ignored_options_can_be_read_but_not_run():
    """Options are changed one by one, and older records are read all the same."""
    both = {"model.family.order": "SV", "model.name": "sswl-gin"}
    config = change(RunConfig(), both)
    config.check_family()
    ignored = change(config, {"model.name": "ds-gin"})
    assert change(RunConfig(), ignored.to_dict()) == ignored
    with pytest.raises(OptionError, match="order is 'SV', but ds-gin ignores"):
        ignored.check_family()


def test_recorded_configs_have_no_ignored_options():
    lines = RECORDS.read_text().splitlines()
    configs = [change(RunConfig(), json.loads(line)["config"]) for line in lines]
    assert configs
    for config in configs:
        config.check_family()


def test_hash_names_the_subgraphs_that_the_model_was_published_with():
    def made(**options):
        return change(RunConfig(), {f"model.{key}": v for key, v in options.items()})

    own = made(name="sswl+-gin")
    assert own.hash() == made(name="sswl+-gin", subgraphs={"kind": "whole"}).hash()
    assert own.hash() != made(name="sswl+-gin", subgraphs={"kind": "egonets"}).hash()


def test_hash_depends_on_the_rules_of_subgraph_drop_only_if_it_is_used():
    """A model that uses all subgraphs is the same under any rule."""
    rules = {"farthest": {"ties": "lowest"}, "random": {"share": 0.2}}
    for strategy, rule in rules.items():
        for name in ("gin", "gin-ak+", "gin-ak+-s"):
            options = {"model.name": name, "model.drop.strategy": strategy}
            usual = change(RunConfig(), options)
            changed = change(usual, {"model.drop": rule})
            assert (changed.hash() == usual.hash()) == (name != "gin-ak+-s")


def test_recorded_hashes_are_those_of_their_configs():
    """A record with another hash would be missing in the tables."""
    for record in map(json.loads, RECORDS.read_text().splitlines()):
        config = change(RunConfig(), record["config"])
        assert (config.hash(), config.cell()) == (record["hash"], record["cell"])


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, EgoNets(3)),
        ({"kind": "walks", "length": 4}, RandomWalks(4, 5)),
        ({"max_neighbors": 5}, EgoNets(3, max_neighbors=5)),
        ({"max_neighbors": 5, "seed": None}, EgoNets(3, 5, seed=None)),
        ({"kind": "pagerank", "size": 9}, PageRankNeighbors(9)),
        ({"kind": "pagerank", "alpha": 0.5}, PageRankNeighbors(32, 0.5)),
    ],
    ids=str,
)
def test_subgraphs_are_built_from_their_options(options, wanted):
    config = change(RunConfig(), {"model.subgraphs": options})
    assert config.model.subgraphs.build() == wanted
    assert (config.hash() == RunConfig().hash()) == (not options)
    extractor = replace(config, model=replace(config.model, subgraphs=wanted))
    assert len(extractor.hash()) == 12


@pytest.mark.parametrize("name", ["learning_rate", "weight_decay", "clip"])
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_train_config_refuses_numbers_that_are_not_finite(name, value):
    with pytest.raises(
        OptionError, match=rf"train\.{name} is (inf|nan); give .*finite"
    ):
        TrainConfig(**{name: value})

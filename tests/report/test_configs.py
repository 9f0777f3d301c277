from dataclasses import fields, is_dataclass

import pytest
import yaml

from gnnak import WholeGraphs
from gnnak.datasets import dataset_names
from gnnak.models.factory import build_model
from gnnak.nn.features import Categorical
from gnnak.training.config.experiment import CONFIGS, experiment_names, load_experiment
from gnnak.training.config.run_config import RunConfig

DATASETS = dataset_names()


def leaves(options, record, prefix=""):
    """Yield every option of a file, with the default that it overrides."""
    names = {field.name for field in fields(record)}
    for key, value in options.items():
        assert key in names, prefix + key
        default = getattr(record, key)
        if is_dataclass(default):
            yield from leaves(value, default, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value, default


def test_there_is_one_experiment_a_data_set():
    assert experiment_names() == sorted(DATASETS)


@pytest.mark.parametrize("name", DATASETS)
def test_an_experiment_says_what_differs_from_the_defaults_and_nothing_else(name):
    options = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text("utf-8"))
    runs, members = options.pop("runs", 1), options.pop("members", {})
    options.pop("best", None)
    experiment = load_experiment(name)
    assert (experiment.name, experiment.runs) == (name, runs)
    assert experiment.config.data.name == name
    for key, value, default in leaves(options, RunConfig()):
        assert key == "data.name" or value != default, key
    for own in members.values():
        for key, value, default in leaves(own, experiment.config):
            assert value != default, key


def numbers(name):
    config = load_experiment(name).config
    model, train = config.model, config.train
    return (
        *(model.num_layers, model.base_layers, model.channels),
        model.subgraphs.num_hops if model.subgraphs.kind is None else "walks",
        *(model.mlp_layers, model.reduce, model.dropout),
        *(train.batch_size, train.epochs, train.step, train.loss),
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("zinc", (6, 1, 128, 3, 1, "sum", 0, 128, 310, 50, None)),
        ("cifar10", (4, 1, 128, 2, 2, "sum", 0, 128, 75, 35, None)),
        (
            "pattern",
            (6, 1, 128, "walks", 2, "sum", 0, 32, 35, 10, "weighted-cross-entropy"),
        ),
        ("molhiv", (2, 1, 128, 3, 1, "mean", 0.3, 128, 60, 50, None)),
        ("molpcba", (5, 1, 400, 3, 1, "mean", 0.5, 128, 105, 25, None)),
        ("exp", (4, 2, 128, 2, 1, "sum", 0, 128, 100, 50, None)),
        ("sr25", (2, 2, 128, 1, 1, "sum", 0, 15, 305, 50, None)),
        ("counting", (6, 1, 128, 2, 1, "sum", 0, 128, 250, 40, None)),
        ("properties", (6, 1, 128, 3, 1, "sum", 0, 128, 250, 40, "mse")),
        ("nci1", (4, 1, 128, 3, 1, "sum", 0, 128, 100, 20, None)),
        ("reddit-b", (4, 1, 128, "walks", 1, "sum", 0, 128, 100, 20, None)),
    ],
)
def test_experiments_have_the_published_numbers(name, expected):
    assert numbers(name) == expected


def test_experiments_have_the_published_options_that_are_no_numbers():
    configs = {name: load_experiment(name).config for name in DATASETS}
    assert configs["molhiv"].model.encodings == ("centroid", "context")
    assert configs["molhiv"].model.fuse == "sum"
    assert configs["molpcba"].model.encodings == ("subgraph",)
    assert configs["molpcba"].model.fuse == "sum"
    assert configs["pattern"].model.plain_conv
    assert not any(configs[name].model.plain_conv for name in ("zinc", "cifar10"))
    assert configs["sr25"].train.learning_rate == 2e-3
    strategies = {n: configs[n].model.drop.strategy for n in DATASETS}
    assert strategies["cifar10"] == "random"
    assert strategies["pattern"] == "min-set-cover"
    assert strategies["zinc"] == strategies["molpcba"] == "farthest"
    lowest = {n for n in DATASETS if configs[n].model.drop.ties == "lowest"}
    assert lowest == {"zinc", "molhiv", "molpcba", "pattern"}
    shares = {n: configs[n].model.drop.share for n in DATASETS}
    assert {n: share for n, share in shares.items() if share} == {"cifar10": 0.2}
    protocols = {n: configs[n].data.protocol for n in DATASETS}
    assert protocols["exp"] == protocols["csl"] == protocols["cfi"] == "held-out"
    assert protocols["sr25"] == protocols["mutag"] == "published"
    runs = {n: load_experiment(n).runs for n in DATASETS}
    assert (runs["zinc"], runs["molhiv"], runs["counting"], runs["mutag"]) == (
        *(3, 5),
        *(2, 1),
    )


def published(name, model):
    config = load_experiment(name).config_for(model)
    model, train = config.model, config.train
    return (
        *(model.num_layers, model.channels, train.batch_size, train.epochs),
        *(train.schedule, train.patience, train.stop_rate),
    )


@pytest.mark.parametrize(
    ("name", "model", "expected"),
    [
        ("zinc", "gin-ak+", (6, 128, 128, 310, "step", 20, None)),
        ("zinc", "ds-gin", (6, 128, 128, 400, "plateau", 20, 1e-5)),
        ("zinc", "dss-gin", (6, 128, 128, 400, "plateau", 20, 1e-5)),
        ("zinc", "sun-gin", (6, 64, 128, 400, "plateau", 40, 1e-5)),
        ("zinc", "sswl-gin", (6, 96, 128, 400, "plateau", 20, None)),
        ("zinc", "sswl+-gin", (6, 96, 128, 400, "plateau", 20, None)),
        ("zinc", "l2fgnn-gin", (6, 96, 128, 400, "plateau", 20, None)),
        ("counting", "sswl+-gin", (6, 96, 512, 600, "cosine", 20, None)),
        ("counting", "l2fgnn-gin", (5, 96, 512, 1200, "plateau", 10, None)),
    ],
)
def test_members_have_the_published_numbers(name, model, expected):
    assert published(name, model) == expected


def test_l2fgnn_counts_with_the_published_settings():
    config = load_experiment("counting").config_for("l2fgnn-gin")
    assert config.model.family.norm == "none"
    assert not config.model.family.context
    assert (config.train.factor, config.train.learning_rate) == (0.9, 1e-3)
    network = build_model("l2fgnn-gin", Categorical((1,)), None, 1, config.model)
    assert sum(weight.numel() for weight in network.parameters()) == 318_443
    zinc = load_experiment("zinc").config_for("l2fgnn-gin")
    assert (zinc.model.family.norm, zinc.train.factor) == ("batch", 0.5)


@pytest.mark.parametrize(
    ("model", "expected"), [("sswl+-gin", 383_731), ("l2fgnn-gin", 493_747)]
)
def test_models_on_zinc_have_fewer_than_500_thousand_weights(model, expected):
    config = load_experiment("zinc").config_for(model)
    zinc = (Categorical((28,)), Categorical((4,)), 1)
    network = build_model(config.model.name, *zinc, config.model)
    weights = sum(weight.numel() for weight in network.parameters())
    assert weights == expected < 500_000
    assert network.shared.extractor == WholeGraphs()
    assert config.train.learning_rate == 1e-3
    assert config.model.family.max_distance == 5

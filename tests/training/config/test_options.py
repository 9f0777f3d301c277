import pytest

from gnnak.errors import OptionError
from gnnak.training.config.options import change, parse_settings
from gnnak.training.config.run_config import RunConfig


def test_change_reaches_nested_records_by_dots_and_by_mappings():
    by_dots = change(RunConfig(), {"model.subgraphs.num_hops": 1, "train.epochs": 2})
    nested = {"model": {"subgraphs": {"num_hops": 1}}, "train": {"epochs": 2}}
    assert change(RunConfig(), nested) == by_dots
    assert by_dots.model.subgraphs.num_hops == 1
    assert RunConfig().model.subgraphs.num_hops == 3


def test_change_applies_all_options_of_a_section_at_once():
    start = change(RunConfig(), {"model.drop": {"strategy": "random", "share": 0.2}})
    back = {"model.drop.strategy": "farthest", "model.drop.share": None}
    assert change(start, back) == RunConfig()
    both = {"model.drop.share": 0.2, "model": {"drop": {"strategy": "random"}}}
    assert change(RunConfig(), both) == start


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (
            "train.epoch=3",
            r"unknown option 'train\.epoch'; did you mean train\.epochs\?",
        ),
        ("model.subgraphs.num_hop=2", r"did you mean model\.subgraphs\.num_hops\?"),
        ("zzz=1", "unknown option 'zzz'; there are: data, model, train"),
        ("train.epochs.more=1", "epochs is one value, it has no 'more'"),
        ("train.epochs=many", r"train\.epochs is 'many'; give a whole number"),
        ("train.epochs=true", r"train\.epochs is True; give a whole number"),
        ("train.epochs=0", r"train\.epochs is 0; give a whole number of at least 1"),
        ("train.learning_rate=-1", "give a finite number greater than 0"),
        (
            "train.learning_rate=fast",
            r"train\.learning_rate is 'fast'; give a finite n",
        ),
        ("train.learning_rate=.inf", r"learning_rate is inf; give a finite number"),
        ("train.learning_rate=1e999", r"rate is '1e999'; give a finite number"),
        ("train.learning_rate=.nan", r"learning_rate is nan; give a finite number"),
        ("train.weight_decay=.inf", r"weight_decay is inf; give a finite number"),
        ("train.clip=.inf", r"train\.clip is inf; give a finite number or null"),
        ("model.subgraphs.p=.inf", r"subgraphs\.p is inf; give a finite number"),
        ("train.epochs=" + "[1]" * 99, r"--set train\.epochs: '.{76}\.\.\. is not a"),
        ("train.epochs=" + "[" * 99 + "]" * 99, r"nested more than 20 levels deep\)"),
        ("model={name: gin, name: gcn}", r"\(the key name occurs twice\); quote it"),
        ("train.epochs=[" + "1, " * 999 + "1]", r"epochs is \[1, .{70,75}\.\.\.; give"),
        ("train.weight_decay=-1", "give 0 or more"),
        ("train.loss=huber", "give one of l1, mse"),
        ("train.early_stop=0", "at least 1"),
        ("model.reduce=median", r"model\.reduce is 'median'; give one of sum, mean"),
        ("model.encodings=[centroid, star]", "give a list with one of centroid"),
        ("model.encodings=centroid", "give a list with one of centroid"),
        ("model.name=gim", "unknown model 'gim'; did you mean 'gin'"),
        ("model.dropout=1", "0 <= dropout < 1"),
        ("model=3", r"model is 3; give its options, as model\.key=value"),
        ("model.gate_centroid=7", "give true or false"),
        ("data.protocol=seen", "give one of split, published, held-out"),
        ("train.epochs", "give key=value"),
        ("=3", "give key=value"),
        ("train.epochs=[1", "is not a YAML value"),
    ],
)
def test_change_explains_a_wrong_setting(setting, sentence):
    with pytest.raises(OptionError, match=sentence):
        change(RunConfig(), parse_settings([setting]))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("train.learning_rate=1e-3", 1e-3),
        ("train.learning_rate=1", 1.0),
        ("train.clip=null", None),
        ("train.precision=64", "64"),
        ("train.early_stop=3", 3),
        ("model.encodings=[context, centroid]", ("context", "centroid")),
    ],
)
def test_change_converts_values_to_the_type_of_the_option(setting, value):
    part, name = setting.split("=")[0].split(".")
    config = change(RunConfig(), parse_settings([setting]))
    found = getattr(getattr(config, part), name)
    assert found == value
    assert type(found) is type(value)

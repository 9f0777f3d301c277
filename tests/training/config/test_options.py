import contextlib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gnnak.errors import OptionError
from gnnak.training.config.experiment import CONFIGS
from gnnak.training.config.options import (
    MAX_CHARACTERS,
    InvalidYamlError,
    change,
    parse_settings,
    parse_yaml,
)
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
        ("train.epoch=3", r"unknown option 'train\.epoch'; did you mean train\.epochs"),
        ("model.subgraphs.num_hop=2", r"did you mean model\.subgraphs\.num_hops\?"),
        ("zzz=1", "unknown option 'zzz'; there are: data, model, train"),
        ("train.epochs.more=1", "epochs is one value, it has no 'more'"),
        ("train.epochs=many", r"train\.epochs is 'many'; give a whole number"),
        ("train.epochs=true", r"train\.epochs is True; give a whole number"),
        ("train.epochs=0", r"train\.epochs is 0; give a whole number of at least 1"),
        ("train.learning_rate=-1", "give a finite number greater than 0"),
        ("train.learning_rate=fast", r"train\.learning_rate is 'fast'; give a finite"),
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
        ("train.optimizer=sgd", "optimizer is 'sgd'; give one of adam, adamw"),
        ("train.average=1", "average is 1.0; give a decay between 0 and 1, such as"),
        ("train.warm_up=310", "warm_up is 310, but train.epochs is 310; give a warm"),
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


def alias_bomb(levels):
    """Nine values, of which every further line has nine times as many."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        parts = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} [{parts}]")
    return "\n".join(lines)


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.yaml")), ids=lambda p: p.stem)
def test_parse_yaml_reads_installed_files_like_pyyaml(path):
    assert parse_yaml(path.read_text()) == yaml.safe_load(path.read_text())


def test_parse_yaml_accepts_aliases_and_merge_keys():
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: [*a, *a]\n"
    assert parse_yaml(text) == yaml.safe_load(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_parse_yaml_inverts_dump(value):
    assert parse_yaml(yaml.safe_dump(value)) == value


@given(st.text(alphabet="ab:-[]{},&*!<'\"\n #|>?01.", max_size=40))
def test_parse_yaml_of_any_text_returns_or_raises_invalid_yaml(text):
    with contextlib.suppress(InvalidYamlError):
        parse_yaml(text)


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("\n" + "[" * 50_000, "is nested more than 20 levels deep", 2),
        ("a:\n" + "- " * 40_000 + "1", "is nested more than 20 levels deep", 2),
        (alias_bomb(12), "more than 10000 values, with those that aliases repeat", 5),
        ("a: &a [*a]", "an alias repeats the value that it is in", 1),
        ("a: &a {b: *a}", "an alias repeats the value that it is in", 1),
        ("- x\n" * 11_000, "more than 10000 values", 1),
        ("x" * (MAX_CHARACTERS + 1), "has more than 100000 characters", None),
        ("a: 1\nb: 2\na: 3", "the key a occurs twice", 3),
        ("t: {a: 1, a: 1}", "the key a occurs twice", 1),
        ("a: 2024-99-99", "not YAML", None),
        ("a: " + "9" * 5000, "not YAML", None),
        ("a: 0x" + "f" * 5000, "a whole number is too large", 1),
        ("a: *b", "not YAML", 1),
        ("{[1]: 2}", "not YAML", 1),
        ("!!python/object/apply:os.system [ls]", "not YAML", 1),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else "",
)
def test_parse_yaml_explains_a_hostile_text(text, reason, line):
    with pytest.raises(InvalidYamlError, match=reason) as caught:
        parse_yaml(text)
    assert caught.value.line == line


@pytest.mark.parametrize(
    "text",
    ["!!bool maybe", "!!timestamp foo", "!!int ''", "1:" * 400 + "1.0"],
    ids=["bool", "timestamp", "int", "sexagesimal"],
)
def test_parse_yaml_refuses_values_that_do_not_fit_their_tag(text):
    with pytest.raises(InvalidYamlError, match="not YAML"):
        parse_yaml(text)


def test_parse_yaml_accepts_merge_keys_inside_merged_mappings():
    text = "a: &a {x: 1}\nb: &b {<<: *a, x: 2}\nc: {<<: *b, x: 3}\n"
    assert parse_yaml(text) == yaml.safe_load(text)

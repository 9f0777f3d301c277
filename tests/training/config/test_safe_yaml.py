import contextlib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gnnak.training.config.experiment import CONFIGS
from gnnak.training.config.options import (
    MAX_CHARACTERS,
    InvalidYamlError,
    parse_yaml,
)


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

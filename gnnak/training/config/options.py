"""Change options of frozen dataclasses, given by name in dicts, texts or YAML."""

import difflib
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from numbers import Integral
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from gnnak.errors import OptionError
from gnnak.typing import ALTERNATIVES

MAX_CHARACTERS = 100_000
"""Largest length of a YAML text."""
MAX_DEPTH = 20
"""Largest nesting depth of lists and mappings."""
MAX_VALUES = 10_000
"""Largest number of values in a YAML text; each alias counts as a copy."""
MAX_BITS = 128
"""Largest number of bits of an integer; Python cannot print very long integers."""


class InvalidYamlError(ValueError):
    """Raised if a text is not YAML, or exceeds one of the limits of this module."""

    def __init__(self, reason: str, mark: Any = None) -> None:
        super().__init__(reason)
        self.line: int | None = mark.line + 1 if mark else None
        """Number of the line with the error, from 1; None if it is not known."""


def parse_yaml(text: str) -> Any:
    """Parse a YAML text without running code, like `yaml.safe_load`."""
    if len(text) > MAX_CHARACTERS:
        raise InvalidYamlError(f"has more than {MAX_CHARACTERS} characters")
    try:
        return _Loader(text).get_single_data()
    except InvalidYamlError:
        raise
    except Exception as error:
        # Besides its own errors, PyYAML raises errors of many types for values that do
        # not fit their tag, such as `!!bool maybe`, dates and huge numbers.
        mark = getattr(error, "problem_mark", None)
        raise InvalidYamlError("not YAML", mark) from error


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which also checks limits and refuses repeated keys."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        mark = event.start_mark
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidYamlError(f"is nested more than {MAX_DEPTH} levels deep", mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if not isinstance(event, yaml.AliasEvent):
            self._sizes[id(node)] = self._size(node)
        elif id(node) not in self._sizes:
            raise InvalidYamlError("an alias repeats the value that it is in", mark)
        if self._sizes[id(node)] > MAX_VALUES:
            raise InvalidYamlError(
                f"has more than {MAX_VALUES} values, with those that aliases repeat",
                mark,
            )
        return node

    def _size(self, node: yaml.Node | None) -> int:
        """Count the values in a node, itself included; an alias counts as a copy."""
        children: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            children = node.value
        elif isinstance(node, yaml.MappingNode):
            children = [child for pair in node.value for child in pair]
        return 1 + sum(self._sizes[id(child)] for child in children)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise InvalidYamlError(
                        f"the key {key.value[:80]} occurs twice", key.start_mark
                    )
                seen.add((key.tag, key.value))
        return node

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        value = self.construct_yaml_int(node)
        if value.bit_length() > MAX_BITS:
            raise InvalidYamlError("a whole number is too large", node.start_mark)
        return value


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_integer)


Record = TypeVar("Record")
"""Any frozen dataclass, such as `RunConfig`."""
LONGEST_SHOWN = 80
"""Largest number of characters of a wrong value in an error message."""


def change(record: Record, options: Mapping[str, Any], prefix: str = "") -> Record:
    """Return a copy of a dataclass, changed by options such as {"train.epochs": 3}."""
    new: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    kind: Any = type(record)
    hints = _hints(kind)
    for key, value in options.items():
        head, _, rest = str(key).partition(".")
        name = f"{prefix}{key}"
        if head not in hints:
            raise unknown_option(name, head, hints)
        if not is_dataclass(getattr(record, head)):
            if rest:
                part = rest.partition(".")[0]
                raise OptionError(f"{name}: {head} is one value, it has no {part!r}.")
            new[head] = converted(name, value, hints[head])
        elif rest:
            nested.setdefault(head, {})[rest] = value
        elif isinstance(value, Mapping):
            nested.setdefault(head, {}).update(value)
        else:
            raise OptionError(
                f"{name} is {shown(value)}; give its options, as {name}.key=value."
            )
    # Replace all options in one call: every copy of a dataclass is validated.
    for head, inner in nested.items():
        new[head] = change(getattr(record, head), inner, f"{prefix}{head}.")
    return replace(record, **new)  # type: ignore[type-var]


def parse_settings(settings: list[str]) -> dict[str, Any]:
    """Parse arguments `key=value` of the option `--set`; values are YAML."""
    options = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise OptionError(
                f"--set got {setting!r}; give key=value, such as train.epochs=10."
            )
        try:
            options[key.strip()] = parse_yaml(value)
        except InvalidYamlError as error:
            reason = "" if str(error) == "not YAML" else f" ({error})"
            raise OptionError(
                f"--set {key.strip()}: {shown(value)} is not a YAML value{reason}; "
                "quote it."
            ) from error
    return options


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def unknown_option(name: str, head: str, known: Iterable[str]) -> OptionError:
    """Return the error for an option `name` whose part `head` is not in `known`."""
    prefix = name[: name.rfind(head)]
    near = difflib.get_close_matches(head, known, n=1, cutoff=0.5)
    every = f"there are: {', '.join(known)}."
    hint = f"did you mean {prefix}{near[0]}?" if near else every
    return OptionError(f"unknown option {name!r}; {hint}")


ALIASES = {
    "model": "model.name",
    "layers": "model.num_layers",
    "lr": "train.learning_rate",
    "seed": "train.seed",
}
"""Maps additional short names of options to full names."""


def full_name(key: str, every: Sequence[str]) -> str:
    """Return the full name of an option; `every` has the full names of all options."""
    short: dict[str, list[str]] = {}
    for name in every:
        short.setdefault(name.rpartition(".")[2], []).append(name)
    short |= {name: [full] for name, full in ALIASES.items()}
    if len(found := short.get(key, [])) == 1:
        return found[0]
    if any(f"{name}.".startswith(f"{key}.") for name in every):
        return key
    # For names with dots, `change` finds the nearest name in the same section.
    cutoff = 1.0 if "." in key else 0.6
    last = key.rpartition(".")[2]
    near = difflib.get_close_matches(last, short, 1, cutoff)
    if ALTERNATIVES.get(last) in short:
        near = [ALTERNATIVES[last]]
    if near:
        names = " or ".join(short[near[0]])
        raise OptionError(f"unknown option {key!r}; did you mean {names}?")
    return key


def converted(name: str, value: Any, hint: Any) -> Any:
    """Convert a value that was read from YAML or JSON to the type of an option."""
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for kind in kinds:
        fitting, found = _fit(value, kind)
        if fitting:
            return found
    wanted = " or ".join(_in_words(kind) for kind in kinds)
    raise OptionError(f"{name} is {shown(value)}; give {wanted}.")


def _fit(value: Any, kind: Any) -> tuple[bool, Any]:
    if kind is type(None):
        return value is None, None
    if get_origin(kind) is Literal:
        text = str(value)
        return text in get_args(kind), text
    if get_origin(kind) is tuple:
        inner = get_args(kind)[0]
        if not isinstance(value, list | tuple):
            return False, None
        items = [_fit(item, inner) for item in value]
        return all(fits for fits, _ in items), tuple(item for _, item in items)
    if kind is float:
        # YAML reads 1e-3 as a string and only 1.0e-3 as a number.
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            return False, None
        return math.isfinite(number) and not isinstance(value, bool), number
    if kind is int:
        # Numbers of NumPy count too, as in the grids of scikit-learn.
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        return whole, int(value) if whole else None
    return isinstance(value, kind), value


def shown(value: Any) -> str:
    """Return the `repr` of a value for an error message, cut to 80 characters."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def _in_words(kind: Any) -> str:
    if kind is type(None):
        return "null"
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    if get_origin(kind) is tuple:
        return f"a list with {_in_words(get_args(kind)[0])}"
    names = {
        int: "a whole number",
        float: "a finite number",
        str: "a text",
        bool: "true or false",
    }
    return names.get(kind, str(kind))

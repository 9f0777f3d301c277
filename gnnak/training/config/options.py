"""Change options of frozen dataclasses by name, from dicts, texts or YAML files."""

from __future__ import annotations

import difflib
import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from numbers import Integral
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from gnnak.errors import OptionError

MAX_CHARACTERS = 100_000
"""Largest length of a YAML text."""
MAX_DEPTH = 20
"""Largest number of lists and mappings inside one another."""
MAX_VALUES = 10_000
"""Largest number of values; every use of an alias counts all values that it repeats."""
MAX_BITS = 128
"""Largest size of an integer. Python refuses to print integers of 4301 digits."""


class InvalidYamlError(ValueError):
    """A text is not YAML, or exceeds one of the limits."""

    def __init__(self, reason: str, mark: Any = None) -> None:
        super().__init__(reason)
        self.line: int | None = mark.line + 1 if mark else None
        """The line where the error was found, from 1; None if it is not known."""


def parse_yaml(text: str) -> Any:
    """Parse a YAML text without running code, like `yaml.safe_load`.

    Raises:
        InvalidYamlError: If the text is not YAML, has the same key twice in a mapping,
            or exceeds one of the limits.

    >>> parse_yaml("train: {epochs: 3}")
    {'train': {'epochs': 3}}
    """
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
    """PyYAML's safe loader with limits, which refuses a key that occurs twice."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a value, within the limits of depth and number of values."""
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
        """Return the number of values in a node, with those that aliases repeat."""
        children: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            children = node.value
        elif isinstance(node, yaml.MappingNode):
            children = [child for pair in node.value for child in pair]
        return 1 + sum(self._sizes[id(child)] for child in children)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping; refuse one that has the same key twice."""
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
        """Construct an int; refuse one that is too large."""
        value = self.construct_yaml_int(node)
        if value.bit_length() > MAX_BITS:
            raise InvalidYamlError("a whole number is too large", node.start_mark)
        return value


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_integer)


Record = TypeVar("Record")
"""Any frozen dataclass, such as `RunConfig`."""
LONGEST_SHOWN = 80
"""Largest number of characters of a wrong value in an error message."""


def change(record: Record, options: Mapping[str, Any]) -> Record:
    """Return a copy of a frozen dataclass with some options changed.

    Args:
        record: An instance of a frozen dataclass; it is not modified.
        options: The new values by name. Options of nested dataclasses are named with
            dots, `{"train.epochs": 3}`, or by nested mappings,
            `{"train": {"epochs": 3}}`.

    Raises:
        OptionError: If an option is unknown, or a value has the wrong type. For an
            unknown option, the message names the most similar known one.

    >>> from gnnak.training.config.run_config import RunConfig
    >>> change(RunConfig(), {"train.epochs": 3, "model": {"channels": 64}}).train.epochs
    3
    """
    return _change_all(record, options, "")


def parse_settings(settings: list[str]) -> dict[str, Any]:
    """Parse the arguments of the command-line option `--set` into a dict.

    Each argument is a string `key=value`, where the value is YAML.

    Raises:
        OptionError: If an argument has no key or no "=", or its value is not YAML.

    >>> parse_settings(["train.epochs=3", "model.encodings=[centroid, context]"])
    {'train.epochs': 3, 'model.encodings': ['centroid', 'context']}
    """
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


def _change_all(record: Any, options: Mapping[str, Any], prefix: str) -> Any:
    """Return a copy of a frozen dataclass with some options changed.

    Args:
        record: The dataclass.
        options: The new values by name, as in `change`.
        prefix: What precedes the names of these options in error messages.
    """
    new: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for key, value in options.items():
        head, *rest = str(key).split(".")
        name = f"{prefix}{key}"
        hints = _hints(record.__class__)
        if head not in hints:
            raise OptionError(_unknown(name, head, record))
        old = getattr(record, head)
        if rest:
            if not is_dataclass(old):
                raise OptionError(
                    f"{name}: {head} is one value, it has no {rest[0]!r}."
                )
            nested.setdefault(head, {})[".".join(rest)] = value
        elif is_dataclass(old):
            if not isinstance(value, Mapping):
                raise OptionError(
                    f"{name} is {shown(value)}; give its options, as {name}.key=value."
                )
            nested.setdefault(head, {}).update(value)
        else:
            new[head] = converted(name, value, hints[head])
    # All at once: a dataclass checks its options whenever it is copied.
    for head, inner in nested.items():
        new[head] = _change_all(getattr(record, head), inner, f"{prefix}{head}.")
    return replace(record, **new)


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the type hints of the fields of a dataclass, by field name."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _unknown(name: str, head: str, record: Any) -> str:
    """Return the error message for an unknown option, whose full name is `name`.

    The message names the field of the dataclass `record` that is most similar to
    `head`, or all fields if none is similar.
    """
    prefix = name[: name.rfind(head)]
    known = _hints(record.__class__)
    near = difflib.get_close_matches(head, known, n=1, cutoff=0.5)
    if near:
        return f"unknown option {name!r}; did you mean {prefix}{near[0]}?"
    return f"unknown option {name!r}; there are: {', '.join(known)}."


def converted(name: str, value: Any, hint: Any) -> Any:
    """Convert a value that was read from YAML or JSON to the type of an option.

    Args:
        name: Name of the option, for error messages.
        value: Plain value: number, text, list or None.
        hint: Type hint of the option, such as `int | None`.

    Raises:
        OptionError: If the value has another type.
    """
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for kind in kinds:
        fitting, found = _fit(value, kind)
        if fitting:
            return found
    wanted = " or ".join(_in_words(kind) for kind in kinds)
    raise OptionError(f"{name} is {shown(value)}; give {wanted}.")


def _fit(value: Any, kind: Any) -> tuple[bool, Any]:
    """Try to convert a value to a type.

    Returns:
        Whether the value has been converted, and the converted value, which has no
        meaning if the conversion failed.
    """
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
    """Return the `repr` of a value for an error message, cut to 80 characters.

    >>> shown("gin"), len(shown([1] * 1000))
    ("'gin'", 80)
    """
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def _in_words(kind: Any) -> str:
    """Describe a type in words, such as `a whole number`, for error messages."""
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

"""Parse YAML that may be damaged or hostile, with bounded time and memory.

PyYAML's safe loader runs no code, but it recurses once per level of nesting, accepts
the same key twice, and lets aliases multiply a few lines into billions of values.
"""

from collections.abc import Hashable
from typing import Any

import yaml

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
    except (yaml.YAMLError, ValueError) as error:
        # Dates such as 2024-99-99 and numbers of 5000 digits raise ValueError.
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

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, Any]:
        """Construct a dict; refuse a mapping that has the same key twice."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise InvalidYamlError(
                        f"the key {key.value[:80]} occurs twice", key.start_mark
                    )
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        """Construct an int; refuse one that is too large."""
        value = self.construct_yaml_int(node)
        if value.bit_length() > MAX_BITS:
            raise InvalidYamlError("a whole number is too large", node.start_mark)
        return value


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_integer)

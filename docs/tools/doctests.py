"""An extension of Griffe, the reader of docstrings: doctests become code blocks."""

import re
from typing import Any

from griffe import Extension, Object

DOCTEST = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
"""A doctest with its outputs, up to the next empty line."""


class Doctests(Extension):
    """Put the doctests of all docstrings into fenced code blocks of Markdown."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of one module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    r"""Return a docstring with every doctest in a fence.

    >>> print(fenced("Add.\n\n>>> 1 + 1\n2"))
    Add.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    return DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", text)

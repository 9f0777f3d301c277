"""Faults on purpose: kills, damaged files, full disks, threads, hostile files.

`make faults` runs all of them and prints a table. Each function tries one kind of fault
many times and counts how the tries ended.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

from gnnak.errors import GnnakError

Outcome = Literal["survived", "lost", "wrong"]
"""survived: right values, or an error message of one sentence. lost: a stored result is
gone. wrong: other values without an error, or a raw exception."""


class Tally:
    """Counts outcomes; the first few bad ones are kept as text."""

    def __init__(self) -> None:
        self.counts: Counter[Outcome] = Counter()
        self.bad: list[str] = []

    @property
    def tried(self) -> int:
        """Number of tries."""
        return self.counts.total()

    def add(self, outcome: Outcome, text: str = "") -> None:
        """Count one try; `text` describes a bad outcome."""
        self.counts[outcome] += 1
        if outcome != "survived" and len(self.bad) < 5:
            self.bad.append(f"{outcome}: {text}")

    def read(self, action: Callable[[], Any], expected: Any, what: str) -> None:
        """Try to read something damaged: the result is right, or an error is clear."""
        try:
            found = action()
        except GnnakError as error:
            clear = "\n" not in str(error) and str(error).endswith(".")
            self.add("survived" if clear else "wrong", f"{what}: {error}")
        except Exception as error:
            self.add("wrong", f"{what}: {type(error).__name__}: {error}")
        else:
            same = found == expected
            self.add("survived" if same else "wrong", f"{what}: another value")

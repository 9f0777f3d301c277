"""What `pytest` and `pytest --quick` leave out: by rules, without a list of tests."""

import subprocess

import pytest
from hypothesis import settings

FEW = 5
"""Examples of a property test with `--quick`."""
MOST = 15
"""Largest number of examples of a property test without `--all-examples`."""


def first_cases(items: list[pytest.Item]) -> tuple[list[pytest.Item], list]:
    """Split tests into the first case of every test function, and all others."""
    kept: dict[str, pytest.Item] = {}
    left_out = []
    for item in items:
        name = item.nodeid.partition("[")[0]
        if kept.setdefault(name, item) is not item:
            left_out.append(item)
    return list(kept.values()), left_out


def limit_examples(items: list[pytest.Item], most: int) -> None:
    """Lower the number of examples of property tests that set it themselves."""
    for item in items:
        chosen = getattr(
            getattr(item, "obj", None), "_hypothesis_internal_use_settings", None
        )
        if chosen is not None and chosen.max_examples > most:
            few = settings(chosen, max_examples=most)
            item.obj._hypothesis_internal_use_settings = few  # type: ignore[attr-defined]


def start_no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip a test as soon as it starts another program than git."""
    start = subprocess.Popen.__init__

    def skip_or_start(self, args, *more, **options):
        if args[0] != "git":
            pytest.skip("starts a program")
        start(self, args, *more, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", skip_or_start)

"""Check that the state of a loader belongs to a loader with the same arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gnnak.errors import CheckpointError, OptionError
from gnnak.wording import kind_of

ADDED = ("nodes", "edges", "processes")
"""Entries that states of older versions do not have."""
DEFAULTS = {"drop_last": False}
"""Entries that states of older versions do not have either, and what they mean then."""
COUNTS = ("graphs", "nodes", "edges")
"""Entries that count what the data set of a loader has."""


def check_state(state: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
    """Check that a state belongs to a loader with the same arguments.

    Args:
        state: The `state_dict()` of a loader.
        mine: The same entries of the loader that is to continue its epoch.

    Raises:
        CheckpointError: If the loaders were built with other arguments.
        OptionError: If the state is no dict.
    """
    if not isinstance(state, Mapping):
        raise OptionError(
            f"the state is {kind_of(state)}; give the state_dict() of a GraphLoader."
        )
    for name, value in mine.items():
        if name in ADDED and name not in state:
            continue
        theirs = state.get(name, DEFAULTS.get(name))
        if theirs == value:
            continue
        if name == "processes":
            raise CheckpointError(
                f"the state is that of a run with processes={theirs}, but this run "
                f"has processes={value}; continue with as many processes."
            )
        advice = "build both with the same arguments."
        if name in COUNTS:
            advice = "build both with the same graphs."
        raise CheckpointError(
            f"the state is that of a loader with {name}={theirs}, but this one has "
            f"{name}={value}; {advice}"
        )

"""Check and read the state of a loader that was built with the same arguments."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from numbers import Number
from typing import Any

from torch import Tensor

from gnnak.errors import CheckpointError, OptionError
from gnnak.typing import as_count
from gnnak.wording import described, kind_of

POSITION = ("epoch", "batch")
"""Entries that say where the loader was."""
ADDED = ("nodes", "edges", "sizes", "processes")
"""Entries that states of older versions do not have."""
DEFAULTS = {"drop_last": False}
"""Entries that states of older versions do not have either, and what they mean then."""
COUNTS = ("graphs", "nodes", "edges")
"""Entries that count what the data set of a loader has."""
UNCHANGED = "give an unchanged state_dict() of a GraphLoader."
"""What to do about a state that is not complete."""


def identify(counts: Tensor) -> dict[str, int]:
    """Return what the state of a loader says of its graphs.

    Args:
        counts: Numbers of nodes and of edges of each of the g graphs, on the CPU,
            [2, g].

    Returns:
        The number of all nodes and of all edges, and a checksum of the sizes of all
        graphs, which depends on the order of the graphs.

    >>> import torch
    >>> identify(torch.tensor([[3, 4], [2, 6]]))
    {'nodes': 7, 'edges': 8, 'sizes': 4175228841}
    >>> identify(torch.tensor([[4, 3], [6, 2]]))
    {'nodes': 7, 'edges': 8, 'sizes': 556435510}
    """
    nodes, edges = counts.sum(dim=1).tolist()
    sizes = zlib.crc32(counts.contiguous().numpy().tobytes())
    return {"nodes": nodes, "edges": edges, "sizes": sizes}


def read_state(state: Mapping[str, Any], mine: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of the epoch and of the next batch that a state contains.

    Args:
        state: The `state_dict()` of a loader.
        mine: The arguments of the loader that is to continue its epoch, by name, as
            `state_dict()` returns them.

    Raises:
        CheckpointError: If the loaders were built with other arguments, or if the state
            is not complete.
        OptionError: If the state is no dict.
    """
    if not isinstance(state, Mapping):
        raise OptionError(
            f"the state is {kind_of(state)}; give the state_dict() of a GraphLoader."
        )
    for name in (*POSITION, *mine):
        if name not in state and name not in ADDED and name not in DEFAULTS:
            raise CheckpointError(f"the state has no entry {name!r}; {UNCHANGED}")
    for name, value in mine.items():
        if name in state or name in DEFAULTS:
            _check_entry(name, state.get(name, DEFAULTS.get(name)), value)
    epoch, batch = (_number(name, state[name]) for name in POSITION)
    return epoch, batch


def _check_entry(name: str, theirs: Any, mine: int | str) -> None:
    """Raise `CheckpointError` unless both loaders have the same value of an argument.

    Args:
        name: Name of the argument, or of something else that the batches depend on.
        theirs: Its value in the state.
        mine: Its value in the loader that is to continue the epoch.
    """
    theirs = theirs if isinstance(theirs, str | Number) else kind_of(theirs)
    if theirs == mine:
        return
    if name == "processes":
        raise CheckpointError(
            f"the state is that of a run with processes={theirs}, but this run has "
            f"processes={mine}; continue with as many processes."
        )
    if name == "sizes":
        raise CheckpointError(
            "the state is that of a loader of other graphs, or of the same in another "
            "order; build both with the same graphs."
        )
    same = "graphs" if name in COUNTS else "arguments"
    raise CheckpointError(
        f"the state is that of a loader with {name}={theirs}, but this one has "
        f"{name}={mine}; build both with the same {same}."
    )


def _number(name: str, value: object) -> int:
    """Return a number of a state as an int; raise `CheckpointError` if it is none."""
    try:
        return as_count(name, value)
    except OptionError as error:
        raise CheckpointError(
            f"the state has {name}={described(value)}; {UNCHANGED}"
        ) from error

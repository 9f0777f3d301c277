"""Structural encodings that are cached in rooted subgraphs and split with them.

A structural encoding describes the position of a node in its graph, or of a node
relative to a root, by numbers that depend on the graph alone; for example, the
probabilities of random walks.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from torch import Tensor

from gnnak.subgraphs.rooted import RootedSubgraphs

EncodingAxis = Literal["nodes", "copies"]
"""What an encoding has one row for: the nodes of the graph, or the node copies (a node
copy is a node as it occurs in one rooted subgraph)."""


class Encoded(NamedTuple):
    """The values of a structural encoding for all rooted subgraphs of a batch."""

    axis: EncodingAxis
    """What the rows stand for: nodes of the graph, or node copies."""
    rows: Tensor
    """The values, [n, ...] or [m, ...], for n nodes or m node copies."""

    def at(self, rows: Tensor) -> "Encoded":
        """Return the encoding of some nodes or node copies, given by number."""
        return Encoded(self.axis, self.rows.index_select(0, rows))


def encode_once(
    subgraphs: RootedSubgraphs,
    name: str,
    axis: EncodingAxis,
    compute: Callable[[], Tensor],
) -> Tensor:
    """Return a structural encoding; compute it at first use, and cache it.

    Unlike other cached values, an encoding stays cached if the loader splits the
    subgraphs of several batches by batch, pads them, or drops some of them.

    Args:
        subgraphs: The rooted subgraphs, which have the cache.
        name: Name of the encoding, with its options.
        axis: What the encoding has rows for.
        compute: Returns the values.
    """
    key = f"encoding {name}"
    return subgraphs.once(key, lambda: Encoded(axis, compute())).rows


def cached_encodings(subgraphs: RootedSubgraphs) -> dict[str, Encoded]:
    """Return the cached structural encodings of rooted subgraphs.

    The keys are names in the cache: `RootedSubgraphs.assume` takes the result as
    keyword arguments.
    """
    derived = getattr(subgraphs, "_derived", {})
    return {key: value for key, value in derived.items() if isinstance(value, Encoded)}

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
    extracted: bool = False
    """Whether the extractor computed the encoding, and not a model. All batches of a
    loader then have it, which captured training steps rely on."""

    def at(self, rows: Tensor) -> "Encoded":
        """Return the encoding of some nodes or node copies, given by number."""
        return self._replace(rows=self.rows.index_select(0, rows))


def encode_once(
    subgraphs: RootedSubgraphs,
    name: str,
    axis: EncodingAxis,
    compute: Callable[[], Tensor],
) -> Tensor:
    """Return a structural encoding; compute it at first use, and cache it.

    Args:
        subgraphs: The rooted subgraphs, which have the cache.
        name: Name of the encoding, with its options.
        axis: What the encoding has rows for.
        compute: Returns the values.
    """
    key = f"encoding {name}"
    return subgraphs.once(key, lambda: Encoded(axis, compute())).rows


def mark_extracted(subgraphs: RootedSubgraphs) -> None:
    """Declare that the extractor has computed all structural encodings so far."""
    encodings = _cached(subgraphs).items()
    subgraphs.assume(**{key: each._replace(extracted=True) for key, each in encodings})


def extracted_encodings(subgraphs: RootedSubgraphs) -> dict[str, Encoded]:
    """Return the structural encodings that the extractor of the subgraphs computed.

    Whoever splits, pads or samples the subgraphs does the same with these encodings.
    The keys are names in the cache: `RootedSubgraphs.assume` takes the result as
    keyword arguments.
    """
    return {key: each for key, each in _cached(subgraphs).items() if each.extracted}


def _cached(subgraphs: RootedSubgraphs) -> dict[str, Encoded]:
    """Return all cached structural encodings, by their names in the cache."""
    derived = getattr(subgraphs, "_derived", {})
    return {key: value for key, value in derived.items() if isinstance(value, Encoded)}

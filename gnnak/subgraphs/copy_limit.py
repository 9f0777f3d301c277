"""Limit the number of copies that are extracted, before memory is spent on them.

A node copy is a node as it occurs in one rooted subgraph; an edge copy is an edge as it
occurs in one rooted subgraph.
"""

from functools import cached_property
from typing import NoReturn

import torch

from gnnak.errors import SizeError
from gnnak.subgraphs.free_memory import free_bytes
from gnnak.typing import check_count

BYTES_PER_COPY = 80
"""Memory in bytes that extraction is assumed to need at its peak, for each node copy
and each edge copy. Measured on random graphs, stars and complete graphs: 35 to 60
bytes, of which the result takes 24. The rest is a reserve."""
UNCHECKED = 1 << 22
"""The free memory is not looked up if there are at most this many copies."""
UNKNOWN_MEMORY = 1 << 34
"""Memory in bytes that is assumed to be free on a device that does not tell."""
MARGIN = 2
"""An estimated number of copies is refused if it exceeds the limit by this factor. With
a smaller estimate, extraction goes on and counts the copies exactly."""


class CopyLimit:
    """The largest number of node copies and edge copies together.

    Args:
        given: The limit; None = as many as fit into the free memory of the device.
        device: The device that the copies will be on.
        lower: Options that the user can lower to get fewer copies, for error messages.
    """

    def __init__(
        self,
        given: int | None,
        device: torch.device,
        lower: str = "num_hops or the number of nodes per batch",
    ) -> None:
        self.given, self.device, self.lower = check_limit(given), device, lower

    @cached_property
    def count(self) -> int:
        """The limit; the free memory of the device is read once."""
        if self.given is not None:
            return self.given
        return (free_bytes(self.device) or UNKNOWN_MEMORY) // BYTES_PER_COPY

    def is_below(self, copies: float) -> bool:
        """Return whether `copies` node copies and edge copies exceed the limit."""
        if self.given is None and copies <= UNCHECKED:
            return False
        return copies > self.count

    def check(
        self,
        copies: float,
        about: str = "at least",
        what: str = "node copies and edge copies",
    ) -> None:
        """Raise `SizeError` if there are too many copies.

        Args:
            copies: Number of node copies and edge copies.
            about: How exact the number is, for the error message. If it is "about", an
                estimate, the number may exceed the limit by the factor `MARGIN`.
            what: What was counted, for the error message.
        """
        if self.is_below(copies / MARGIN if about == "about" else copies):
            self._refuse(copies, f"{about} {copies:,.0f} {what}")

    def _refuse(self, copies: float, number: str) -> NoReturn:
        if self.given is None:
            gigabytes = self.count * BYTES_PER_COPY / 1e9
            limit = f"the {gigabytes:,.1f} GB of free memory"
        else:
            limit = f"copy_limit={self.count:,}"
        raise SizeError(
            f"the rooted subgraphs have {number} (each node and edge counts once in "
            "every subgraph that contains it), which take "
            f"{copies * BYTES_PER_COPY / 1e9:,.1f} GB, more than {limit} allows; lower "
            f"{self.lower}, or raise copy_limit of the extractor."
        )


def check_limit(copy_limit: int | None) -> int | None:
    """Return `copy_limit`; raise `OptionError` unless it is None or a positive int."""
    if copy_limit is not None:
        check_count("copy_limit", copy_limit, least=1)
    return copy_limit

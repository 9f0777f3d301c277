"""Epochs in turn: what one needs can be begun while the one before it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """What can be given up before it has come to its end."""

    def close(self) -> None:
        """Give it up."""


T = TypeVar("T", bound=Closable)


@dataclass(frozen=True)
class Epochs:
    """The epochs of a run."""

    now: Callable[[], int]
    """The number of the one at hand, from 0 up."""
    count: int
    """How many there are."""


def epoch_seed(seed: int, epoch: int, rank: int = 0) -> int:
    """The seed of one epoch in one process: a run can so be taken up at any epoch."""
    mixed = (seed * 1_000_003 + epoch) * 1_000_003 + rank
    return mixed % (2**63 - 1)


class EpochPrefetcher(Generic[T]):
    """What an epoch needs, begun before it is taken.

    It follows from the number of the epoch, so that it does not matter when it was
    begun. What was begun for an epoch that never comes is given up.

    Args:
        begin: From the number of an epoch to what it needs.
    """

    def __init__(self, begin: Callable[[int], T]) -> None:
        self._begin = begin
        self._waiting: dict[int, T] = {}

    def ahead_of(self, epoch: int) -> None:
        """Begin it for an epoch to come, and for no other."""
        self.close()
        self._waiting[epoch] = self._begin(epoch)

    def take(self, epoch: int) -> T:
        """What an epoch needs, begun ahead of it, or else now."""
        begun = self._waiting.pop(epoch, None)
        self.close()
        return self._begin(epoch) if begun is None else begun

    def close(self) -> None:
        """Give up what was not taken."""
        while self._waiting:
            self._waiting.popitem()[1].close()

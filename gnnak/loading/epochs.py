"""The number and the random seed of an epoch, and prefetching for the next epoch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """An iterator or similar object that must be closed if it is not exhausted."""

    def close(self) -> None:
        """Stop the work in progress, and release its memory and threads."""


T = TypeVar("T", bound=Closable)


@dataclass(frozen=True)
class Epochs:
    """Tells a loader which epoch is running, and how many epochs the run has.

    The loader prefetches data for the next epoch, unless the current epoch is the last.
    """

    now: Callable[[], int]
    """Returns the number of the current epoch; the first is 0."""
    count: int
    """Number of epochs of the whole run."""
    seed: Callable[[int], int] = int
    """Takes the number of an epoch and returns the random seed for the rooted subgraphs
    of that epoch. By default, the seed is the number of the epoch."""


def epoch_seed(seed: int, epoch: int, rank: int = 0) -> int:
    """Return the random seed for one epoch in one process.

    The seed depends only on the arguments, so a run can be resumed at any epoch.

    Args:
        seed: The seed of the run.
        epoch: Number of the epoch, from 0.
        rank: Rank of the process in distributed training.
    """
    mixed = (seed * 1_000_003 + epoch) * 1_000_003 + rank
    return mixed % (2**63 - 1)


class EpochPrefetcher(Generic[T]):
    """Starts the work for an epoch, such as loading its data, before the epoch begins.

    The work must depend only on the number of the epoch, not on when it starts. Work is
    started early for at most one epoch; if another epoch is needed instead, that work
    is closed.

    Args:
        start: Takes the number of an epoch, starts the work for that epoch, and returns
            an object that can be closed to stop the work.
    """

    def __init__(self, start: Callable[[int], T]) -> None:
        self._start = start
        self._prefetched: dict[int, T] = {}

    def prefetch(self, epoch: int) -> None:
        """Start the work for an epoch that begins later; `take` returns that work.

        Work that was started early for another epoch is closed first.
        """
        self.close()
        self._prefetched[epoch] = self._start(epoch)

    def take(self, epoch: int) -> T:
        """Return the work for an epoch; start it now if `prefetch` has not started it.

        Work that was started early for another epoch is closed.
        """
        prefetched = self._prefetched.pop(epoch, None)
        self.close()
        return self._start(epoch) if prefetched is None else prefetched

    def close(self) -> None:
        """Close work that `prefetch` has started and `take` has not returned."""
        while self._prefetched:
            self._prefetched.popitem()[1].close()

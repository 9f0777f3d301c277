"""Number epochs, seed them, and prefetch the data of the next one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """An object that must be closed if it is not used to its end."""

    def close(self) -> None:
        """Stop its work and release its resources."""


T = TypeVar("T", bound=Closable)


@dataclass(frozen=True)
class Epochs:
    """The epochs of a training run."""

    now: Callable[[], int]
    """Returns the number of the current epoch; the first is 0."""
    count: int
    """Number of epochs of the run."""


def epoch_seed(seed: int, epoch: int, rank: int = 0) -> int:
    """Return the random seed of one epoch in one process.

    It depends on nothing else, so a run can be resumed at any epoch.

    Args:
        seed: The seed of the run.
        epoch: Number of the epoch.
        rank: Rank of the process.
    """
    mixed = (seed * 1_000_003 + epoch) * 1_000_003 + rank
    return mixed % (2**63 - 1)


class EpochPrefetcher(Generic[T]):
    """Start the work for an epoch before the epoch begins.

    The work must depend only on the number of the epoch, so that it does not matter
    when it starts. At most one epoch is prefetched; if another one is needed instead,
    the prefetched work is closed.

    Args:
        start: Starts the work for an epoch, given its number, and returns it.
    """

    def __init__(self, start: Callable[[int], T]) -> None:
        self._start = start
        self._prefetched: dict[int, T] = {}

    def prefetch(self, epoch: int) -> None:
        """Start the work for this epoch, and close the work for any other."""
        self.close()
        self._prefetched[epoch] = self._start(epoch)

    def take(self, epoch: int) -> T:
        """Return the work for this epoch; start it now if it was not prefetched."""
        prefetched = self._prefetched.pop(epoch, None)
        self.close()
        return self._start(epoch) if prefetched is None else prefetched

    def close(self) -> None:
        """Close prefetched work that was not taken."""
        while self._prefetched:
            self._prefetched.popitem()[1].close()

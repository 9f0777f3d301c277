"""The batches of each epoch: assembled in windows, and prefetched on a GPU."""

from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from gnnak.loading.assembler import Assembled, Assembler, into_windows
from gnnak.loading.order import EpochPrefetcher, epoch_seed
from gnnak.loading.prefetch import Prefetcher, prefetch

Windows = Generator[list[Assembled], None, None] | Prefetcher[list[Assembled]]
"""An iterator over windows: lists of batches that were assembled together."""


class Order(Protocol):
    """Chooses which graphs are in each batch of an epoch."""

    def of_epoch(self, epoch: int) -> Iterable[Tensor]:
        """Return the batches of an epoch, each as the positions of its graphs."""


class EpochWindows:
    """Yields the windows of an epoch: several consecutive batches, assembled together.

    On a GPU, the next window is prefetched while the batches of the current window are
    used. During the last window of an epoch, the first window of the next epoch is
    prefetched.

    Args:
        assembler: Assembles the batches of a window.
        order: Chooses the graphs of each batch.
        seed: Takes the number of an epoch and returns the random seed for the rooted
            subgraphs of that epoch.
        reseed: Whether the random subgraphs of a window depend only on the seed of the
            epoch and on the number of the window's first batch. An epoch can then also
            start at a later batch. If False, they also depend on the earlier windows of
            the epoch.
    """

    def __init__(
        self,
        assembler: Assembler,
        order: Order,
        seed: Callable[[int], int],
        reseed: bool = False,
    ) -> None:
        # `_start` does not refer to this object: without a reference cycle, the graphs
        # are freed as soon as the loader is.
        self._start = partial(_start, assembler, order, seed, reseed)
        self._prefetcher: EpochPrefetcher[Windows] = EpochPrefetcher(self._start)

    def __reduce__(self) -> tuple[type, tuple]:
        """Copy or pickle this object without the window that it has prefetched."""
        return EpochWindows, self._start.args

    def of_epoch(
        self, epoch: int, count: int, first: int = 0, more: bool = True
    ) -> Generator[list[Assembled], None, None]:
        """Yield the windows of an epoch, each as the list of its batches.

        Args:
            epoch: Number of the epoch.
            count: Number of batches of the epoch.
            first: Number of the first batch; earlier batches are skipped.
            more: Whether to prefetch the next epoch during the last window.
        """
        windows = self._start(epoch, first) if first else self._prefetcher.take(epoch)
        try:
            for batches in windows:
                first += len(batches)
                if first == count and more:
                    self._prefetcher.prefetch(epoch + 1)
                yield batches
        finally:
            windows.close()

    def close(self) -> None:
        """Stop prefetching, and free the window prefetched for the next epoch."""
        self._prefetcher.close()


def _start(
    assembler: Assembler,
    order: Order,
    seed: Callable[[int], int],
    reseed: bool,
    epoch: int,
    first: int = 0,
) -> Windows:
    """Return an iterator over the windows of an epoch, from batch `first` on.

    On a GPU, the first window is prefetched at once. Arguments as in `EpochWindows`.
    """

    def assembled() -> Generator[list[Assembled], None, None]:
        """Assemble the windows; the first one lacks the batches before `first`."""
        assembler.begin_epoch()
        generator, end = torch.Generator(assembler.device), 0
        generator.manual_seed(seed(epoch))
        for batches in into_windows(order.of_epoch(epoch), assembler.share):
            begin, end = end, end + len(batches)
            if end <= first:
                continue
            if reseed:
                generator.manual_seed(epoch_seed(seed(epoch), begin))
            gradients = torch.is_grad_enabled()
            # A tensor made in inference mode could not be used in training later, and
            # has no version counter, which tells whether its subgraphs are still valid.
            with torch.inference_mode(False), torch.set_grad_enabled(gradients):
                window = assembler.assemble(batches, generator)
            yield window[max(first - begin, 0) :]

    return prefetch(assembled(), assembler.device)

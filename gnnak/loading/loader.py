"""Iterate over the batches of each epoch, for `gnnak train`."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext

from gnnak.graphs import GraphStore
from gnnak.graphs.readers.pyg import FieldStore
from gnnak.loading.assembler import Assembler, EpochWindows, Subgraphs
from gnnak.loading.items import Item
from gnnak.loading.order import BatchSampler, Epochs
from gnnak.loading.padder import Demand, Padder


class Loader:
    """Iterate over the batches of an epoch, as `Item`s on the store's device.

    Unlike `GraphLoader`, this loader yields no PyG batches, and a batch is either
    padded or not. Another object, such as Lightning's trainer, tells which epoch is
    running. The window that is prefetched for the next epoch stays in memory until that
    epoch begins or until `close` is called.

    Args:
        store: The graphs.
        sampler: Chooses the graphs of each batch.
        timed: Returns a context manager that times the wait for a window.
        subgraphs: Where the rooted subgraphs come from; None = there are none.
        single: Whether every window is a single batch; see `Assembler`.
        padded: Whether batches are padded to a few fixed sizes. Batches before the
            first one with `sampler.batch_size` graphs are not padded.
        epochs: The current epoch, the number of epochs and their random seeds; None =
            every iteration is epoch 0, and nothing is prefetched for a next epoch.
    """

    def __init__(
        self,
        store: GraphStore,
        sampler: BatchSampler,
        timed: Callable[[], AbstractContextManager] = nullcontext,
        subgraphs: Subgraphs | None = None,
        single: bool = False,
        padded: bool = False,
        epochs: Epochs | None = None,
    ) -> None:
        size, padder = sampler.batch_size, None
        if padded:
            padder = Padder(size, store.node_targets, Demand(always=True), both=False)
        source = subgraphs or Subgraphs()
        assembler = Assembler(FieldStore(store), source, size, padder, single)
        self.batches, self.timed = sampler, timed
        self.epochs = epochs or Epochs(lambda: 0, 1)
        self._windows = EpochWindows(assembler, sampler, self.epochs.seed)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Item]:
        epoch, count = self.epochs.now(), len(self)
        more = epoch + 1 < self.epochs.count
        with closing(self._windows.of_epoch(epoch, count, more=more)) as windows:
            while True:
                with self.timed():
                    window = next(windows, None)
                if window is None:
                    return
                for assembled in window:
                    yield assembled.item

    def close(self) -> None:
        """Stop prefetching, and free the window prefetched for the next epoch."""
        self._windows.close()

"""Choose the graphs of each batch, in every epoch and process."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor


class BatchSampler:
    """Yield the positions of the graphs of each batch.

    All processes compute the same batches, and each process takes its part of every
    batch; together they see the batches that a single process would see. If the last
    batch has fewer than two graphs per process, it is merged into the one before:
    BatchNorm cannot compute statistics of a single graph.

    Args:
        positions: Positions of the graphs in the store, [g].
        batch_size: Graphs per batch, over all processes.
        order: Returns the seed of the random order of an epoch, given its number;
            None = graphs come in the order of `positions`.
        rank: Rank of this process.
        processes: Number of processes.
    """

    def __init__(
        self,
        positions: Tensor,
        batch_size: int,
        order: Callable[[int], int] | None = None,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        self.positions, self.batch_size = positions, batch_size
        self.order = order
        self.rank, self.processes = rank, processes
        self.sizes = _batch_sizes(positions.numel(), batch_size, 2 * processes)

    def __len__(self) -> int:
        return len(self.sizes)

    def of_epoch(self, epoch: int) -> Iterator[Tensor]:
        """Yield this process's part of each batch of an epoch."""
        positions = self.positions
        if self.order is not None:
            generator = torch.Generator().manual_seed(self.order(epoch))
            positions = positions[torch.randperm(len(positions), generator=generator)]
        for batch in positions.split(self.sizes):
            yield batch.tensor_split(self.processes)[self.rank]


def _batch_sizes(count: int, size: int, least: int) -> list[int]:
    """Return the size of each batch; a last batch smaller than `least` is merged."""
    sizes = [size] * (count // size) + [count % size] * bool(count % size)
    if len(sizes) > 1 and sizes[-1] < least:
        last = sizes.pop()
        sizes[-1] += last
    return sizes

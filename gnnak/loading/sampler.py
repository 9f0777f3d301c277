"""Which graphs make a batch, epoch by epoch, each process with its share of all."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor


class BatchSampler:
    """Positions of the graphs of each batch, [b].

    Every process cuts the same batches and takes its share of each, so that together
    they see what one process would. A last batch with fewer than two graphs a process
    joins the one before it: BatchNorm has no statistics of a single graph.

    Args:
        positions: The graphs, [g].
        batch_size: Graphs a batch, over all processes.
        order: From the number of an epoch to the seed of its order; None = as they
            stand.
        rank: Number of this process.
        processes: How many there are.
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
        """The batches of an epoch, one after the other."""
        positions = self.positions
        if self.order is not None:
            generator = torch.Generator().manual_seed(self.order(epoch))
            positions = positions[torch.randperm(len(positions), generator=generator)]
        for batch in positions.split(self.sizes):
            yield batch.tensor_split(self.processes)[self.rank]


def _batch_sizes(count: int, size: int, least: int) -> list[int]:
    sizes = [size] * (count // size) + [count % size] * bool(count % size)
    if len(sizes) > 1 and sizes[-1] < least:
        last = sizes.pop()
        sizes[-1] += last
    return sizes

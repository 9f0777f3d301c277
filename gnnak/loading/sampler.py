"""Choose the graphs of each batch, for each epoch and each process."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor


class BatchSampler:
    """Choose which graphs are in each batch of an epoch.

    All processes compute the same batches, and each process takes its part of every
    batch; together they see the batches that a single process would see. If the last
    batch has fewer than two graphs per process, it is merged into the batch before:
    BatchNorm cannot compute statistics of a single graph.

    Args:
        positions: Positions in the store of the g graphs to use, [g].
        batch_size: Graphs per batch, over all processes.
        order: Takes the number of an epoch and returns the random seed with which the
            graphs are shuffled in that epoch. None = graphs are not shuffled but come
            in the order of `positions`.
        rank: Rank of this process in distributed training.
        processes: Number of processes in distributed training.

    Attributes:
        sizes: Number of graphs of each batch, over all processes.
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
        """Yield the batches of an epoch, each as the positions of its graphs.

        In distributed training, a process gets only its own part of each batch.

        Args:
            epoch: Number of the epoch, from 0.
        """
        positions = self.positions
        if self.order is not None:
            generator = torch.Generator().manual_seed(self.order(epoch))
            count, device = len(positions), torch.device("cpu")
            order = torch.randperm(count, generator=generator, device=device)
            positions = positions[order]
        for batch in positions.split(self.sizes):
            yield batch.tensor_split(self.processes)[self.rank]


def _batch_sizes(count: int, size: int, least: int) -> list[int]:
    """Return the number of graphs of each batch.

    Args:
        count: Number of graphs in total.
        size: Number of graphs of a full batch.
        least: If the last batch would have fewer graphs than this, it is merged into
            the batch before.
    """
    sizes = [size] * (count // size) + [count % size] * bool(count % size)
    if len(sizes) > 1 and sizes[-1] < least:
        last = sizes.pop()
        sizes[-1] += last
    return sizes

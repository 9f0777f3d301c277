"""Which graphs are in each batch of an epoch, and the random seed of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from gnnak.errors import OptionError, counted
from gnnak.typing import check_count, convert_count


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


@dataclass(frozen=True)
class Budget:
    """The largest number of nodes, node copies or both that a batch may have.

    A node copy is a node as it occurs in one rooted subgraph. Batches with a budget
    take about the same time and memory, while batches with a fixed number of graphs
    vary.

    >>> Budget(nodes=3000)
    Budget(nodes=3000, copies=None)
    """

    nodes: int | None = None
    """The largest number of nodes of a batch; None = any number."""
    copies: int | None = None
    """The largest number of node copies of a batch; None = any number."""

    def __post_init__(self) -> None:
        if self.nodes is None and self.copies is None:
            raise OptionError("this Budget has no limit; give nodes or copies.")
        for name in ("nodes", "copies"):
            if getattr(self, name) is not None:
                convert_count(self, name, least=1)


class GraphOrder:
    """Choose which graphs are in each batch of an epoch.

    In distributed training, each process gets other graphs and equally many batches. If
    the graphs cannot be divided evenly, a few of them occur in two processes, as with
    PyTorch's `DistributedSampler`.

    Args:
        batch_size: Number of graphs per batch, in each process; or a `Budget`.
        sizes: The sizes of all g graphs that the budget limits, by name ("nodes",
            "copies"), on the CPU, [g] each.
        count: Number of graphs, g.
        seed: Random seed of the order; None = graphs come in the order of the store.
        drop_last: Whether to leave out a last batch that is smaller than the others;
            not with a `Budget`.
    """

    def __init__(
        self,
        batch_size: int | Budget,
        sizes: dict[str, Tensor],
        count: int,
        seed: int | None,
        drop_last: bool = False,
    ) -> None:
        self.batch_size, self.sizes, self.count = batch_size, sizes, count
        self.seed, self.drop_last = seed, drop_last
        self.rank, self.processes = 0, 1
        if dist.is_available() and dist.is_initialized():
            self.rank, self.processes = dist.get_rank(), dist.get_world_size()
        if isinstance(batch_size, Budget):
            self._check_budget(batch_size)
        else:
            check_count("batch_size", batch_size, least=1)
            self._check_last(batch_size)

    def of_epoch(self, epoch: int) -> list[Tensor]:
        """Return the batches of an epoch, each as the positions of its graphs.

        Args:
            epoch: Number of the epoch, from 0.
        """
        order = torch.arange(self.count, device="cpu")
        if self.seed is not None:
            generator = torch.Generator().manual_seed(epoch_seed(self.seed, epoch))
            order = torch.randperm(self.count, generator=generator, device="cpu")
        if isinstance(self.batch_size, Budget):
            return self._within(order, self.batch_size)
        batches = list(self._part(order).split(min(self.batch_size, self.count)))
        if self.drop_last and len(batches[-1]) < self.batch_size:
            batches.pop()
        return batches

    def _part(self, order: Tensor) -> Tensor:
        """Return the graphs of this process; all processes get equally many."""
        missing = -order.numel() % self.processes
        order = torch.cat([order, order.repeat(missing)[:missing]])
        return order[self.rank :: self.processes]

    def _within(self, order: Tensor, budget: Budget) -> list[Tensor]:
        """Fill batches up to a budget, and return those of this process.

        Batches are assigned to the processes in turn. If some processes would get one
        batch more than others, the last batches are merged and divided among all
        processes, so that all get equally many.
        """
        cuts, begin = [], 0
        ends = {n: self.sizes[n][order].cumsum(0) for n in _limited(budget)}
        while begin < order.numel():
            end = order.numel()
            for name, total in ends.items():
                before = int(total[begin - 1]) if begin else 0
                most = min(before + getattr(budget, name), int(total[-1]))
                end = min(end, int(torch.searchsorted(total, most, right=True)))
            cuts.append(end)
            begin = end
        batches = list(order.tensor_split(cuts[:-1]))
        extra = len(batches) % self.processes
        if extra:
            last = torch.cat(batches[-extra:])
            missing = max(self.processes - last.numel(), 0)
            last = torch.cat([last, order.repeat(missing)[:missing]])
            batches[-extra:] = last.tensor_split(self.processes)
        return batches[self.rank :: self.processes]

    def _check_last(self, batch_size: int) -> None:
        """Raise `OptionError` if `drop_last` leaves no batch."""
        share = -(-self.count // self.processes)
        if self.drop_last and share < batch_size:
            raise OptionError(
                f"drop_last leaves no batch: there are {counted(share, 'graph')}, and "
                f"batch_size is {batch_size}; lower batch_size or leave out drop_last."
            )

    def _check_budget(self, budget: Budget) -> None:
        """Raise `OptionError` if a graph exceeds the budget, or sizes are unknown."""
        for name in _limited(budget):
            limit = getattr(budget, name)
            if name not in self.sizes:
                raise OptionError(
                    "a Budget of node copies needs rooted subgraphs that are extracted "
                    "once, such as subgraphs=gnnak.EgoNets(2); give Budget(nodes=...)."
                )
            if int(self.sizes[name].max()) > limit:
                graph = int(self.sizes[name].argmax())
                raise OptionError(
                    f"graph {graph} alone has {int(self.sizes[name][graph])} {name}, "
                    f"more than the budget of {limit}; raise the budget or leave the "
                    "graph out."
                )


def _limited(budget: Budget) -> list[str]:
    """Return what a budget limits: "nodes", "copies" or both."""
    names = ("nodes", "copies")
    return [name for name in names if getattr(budget, name) is not None]


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

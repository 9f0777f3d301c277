"""Which graphs are in each batch of an epoch, and the random seed of an epoch."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch import Tensor

from gnnak.errors import OptionError, counted
from gnnak.typing import check_count, convert_count


def epoch_seed(seed: int, epoch: int, rank: int = 0) -> int:
    mixed = (seed * 1_000_003 + epoch) * 1_000_003 + rank
    return mixed % (2**63 - 1)


@dataclass(frozen=True)
class Budget:
    """The largest number of nodes, node copies or both that a batch may have.

    A node copy is a node as it occurs in one rooted subgraph. Batches with a budget
    vary less in time and memory than batches with a fixed number of graphs.

    >>> Budget(nodes=3000)
    Budget(nodes=3000, copies=None)
    """

    nodes: int | None = None
    """The largest number of nodes of a batch. If None, there is no limit."""
    copies: int | None = None
    """The largest number of node copies of a batch. If None, there is no limit."""

    def __post_init__(self) -> None:
        if self.nodes is None and self.copies is None:
            raise OptionError("this Budget has no limit; give nodes or copies.")
        for name in ("nodes", "copies"):
            if getattr(self, name) is not None:
                convert_count(self, name, least=1)


class BatchOrder(ABC):
    """Chooses the graphs of each batch of an epoch; a `seed` shuffles the graphs."""

    def __init__(
        self, positions: Tensor, seed: int | None, rank: int, processes: int
    ) -> None:
        self.positions, self.seed = positions, seed
        self.rank, self.processes = rank, processes

    def of_epoch(self, epoch: int) -> list[Tensor]:
        order = self.positions
        if self.seed is not None:
            generator = torch.Generator().manual_seed(epoch_seed(self.seed, epoch))
            count = order.numel()
            order = order[torch.randperm(count, generator=generator, device="cpu")]
        return self._divide(order)

    @abstractmethod
    def _divide(self, order: Tensor) -> list[Tensor]:
        """Return the batches of this process, given the order of all graphs."""


class GraphOrder(BatchOrder):
    """Chooses the batches of a `GraphLoader`: `batch_size` graphs in each process.

    All processes get equally many batches; a few graphs may occur in two processes.
    `sizes` maps "nodes" and "copies" to the count of each graph, [g], on the CPU. A
    `Budget` limits the sum of the counts in a batch. `what` is the word for a graph in
    error messages, such as "seed".
    """

    def __init__(
        self,
        batch_size: int | Budget,
        sizes: dict[str, Tensor],
        count: int,
        seed: int | None,
        drop_last: bool = False,
        what: str = "graph",
    ) -> None:
        several = dist.is_available() and dist.is_initialized()
        place = (dist.get_rank(), dist.get_world_size()) if several else (0, 1)
        super().__init__(torch.arange(count, device="cpu"), seed, *place)
        self.batch_size, self.sizes, self.count = batch_size, sizes, count
        self.drop_last, self.what = drop_last, what
        if isinstance(batch_size, Budget):
            self._check_budget(batch_size)
        else:
            check_count("batch_size", batch_size, least=1)
            self._check_last(batch_size)

    def _divide(self, order: Tensor) -> list[Tensor]:
        if isinstance(self.batch_size, Budget):
            return self._within(order, self.batch_size)
        batches = list(self._part(order).split(min(self.batch_size, self.count)))
        if self.drop_last and len(batches[-1]) < self.batch_size:
            batches.pop()
        return batches

    def _part(self, order: Tensor) -> Tensor:
        missing = -order.numel() % self.processes
        order = torch.cat([order, order.repeat(missing)[:missing]])
        return order[self.rank :: self.processes]

    def _within(self, order: Tensor, budget: Budget) -> list[Tensor]:
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
        share = -(-self.count // self.processes)
        if self.drop_last and share < batch_size:
            there = counted(share, self.what)
            raise OptionError(
                f"drop_last leaves no batch: there are {there}, and batch_size is "
                f"{batch_size}; lower batch_size or leave out drop_last."
            )

    def _check_budget(self, budget: Budget) -> None:
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
    names = ("nodes", "copies")
    return [name for name in names if getattr(budget, name) is not None]


class HasEpochs:
    """A loader whose method `set_epoch` PyTorch Lightning calls before each epoch."""

    @property
    def batch_sampler(self) -> SimpleNamespace:
        """Where PyTorch Lightning looks for `set_epoch`: `batch_sampler.sampler`."""
        return SimpleNamespace(sampler=self)


class BatchSampler(BatchOrder):
    """Chooses the batches of `gnnak train`: `batch_size` graphs over all processes.

    A last batch with fewer than two graphs per process is merged into the batch before,
    because BatchNorm cannot normalise a single graph.
    """

    def __init__(
        self,
        positions: Tensor,
        batch_size: int,
        seed: int | None = None,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        super().__init__(positions, seed, rank, processes)
        self.batch_size, count = batch_size, positions.numel()
        left = count % batch_size
        # Number of graphs of each batch, over all processes.
        self.sizes = [batch_size] * (count // batch_size) + [left] * bool(left)
        if len(self.sizes) > 1 and self.sizes[-1] < 2 * processes:
            last = self.sizes.pop()
            self.sizes[-1] += last

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def own_size(self) -> int:
        """Number of graphs of a usual batch in this process."""
        each, more = divmod(self.batch_size, self.processes)
        return each + (self.rank < more)

    def _divide(self, order: Tensor) -> list[Tensor]:
        batches = order.split(self.sizes)
        return [each.tensor_split(self.processes)[self.rank] for each in batches]


@dataclass(frozen=True)
class Epochs:
    """Tells a loader which epoch is running, and how many epochs the run has."""

    now: Callable[[], int] = int
    """Returns the number of the current epoch, from 0."""
    count: int = 1
    seed: int = 0
    """Random seed of the run, on which random subgraphs depend."""
    done: Callable[[], int] = int
    """Returns how many batches at the start of the epoch a resumed run skips."""

"""The loaders: `GraphLoader` for any training loop, `Loader` for `gnnak train`."""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from copy import copy
from itertools import chain
from numbers import Number
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnnak.errors import (
    CheckpointError,
    OptionError,
    SizeError,
    counted,
    described,
    kind_of,
)
from gnnak.graphs import GraphStore
from gnnak.graphs.readers.pyg import FieldStore
from gnnak.loading.assembler import Assembler, EpochWindows, Subgraphs, find_subgraphs
from gnnak.loading.forms import BatchMaker
from gnnak.loading.items import Item
from gnnak.loading.order import BatchSampler, Budget, Epochs, GraphOrder, HasEpochs
from gnnak.loading.padder import Demand, Padder
from gnnak.loading.sources import (
    check_batch_size,
    check_field_names,
    check_has_edges,
    check_subgraphs,
    find_graphs,
    read_graphs,
    refuse_others,
    usable_device,
)
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.extractors import Extractor, describe
from gnnak.typing import as_count, check_flag

if TYPE_CHECKING:
    from torch_geometric.data import Batch

ALONE = (
    "assembles batches on their device, without worker processes, in the order that "
    "shuffle and seed give"
)
"""Completes the message that a `GraphLoader` lacks an option of PyG's `DataLoader`."""


class GraphLoader(HasEpochs):
    """Iterate over batches of many small graphs; a replacement for PyG's `DataLoader`.

    All graphs are moved to `device` once. Batches are assembled there, without a loop
    over graphs. On a GPU, several batches are assembled at once, and prefetched. A
    batch is a PyG `Batch` with all fields of the graphs. With `subgraphs`, the rooted
    subgraphs of a batch are in its field `subgraphs`. An uplifted model or a network
    that is called with the batch's `edge_index` uses these subgraphs.

    Each iteration is one epoch. The batches of an epoch depend only on `seed` and on
    the number of the epoch, which can be set: `loader.epoch = 3`. In distributed
    training (`torch.distributed`), each process gets its part of the graphs.

    Args:
        graphs: A list of PyG `Data` with the same fields, a PyG data set, another data
            set of `Data` with `__len__` and `__getitem__`, a `gnnak.graphs.GraphStore`,
            or the name of a data set or of a part of it, such as "zinc" or
            "zinc/train". The `transform` of a PyG data set is applied once, when the
            graphs are read, and not anew in each epoch.
        batch_size: Number of graphs per batch; or a `Budget`, which limits the number
            of nodes or node copies (nodes as they occur in rooted subgraphs).
        shuffle: Whether the graphs are in a random order, a new one in each epoch.
        device: The device of the batches. If None, the device of the graphs.
        subgraphs: Extracts the rooted subgraphs, for example `EgoNets(3)`. If None,
            batches have no subgraphs. Subgraphs that are not random and fit into memory
            are extracted once, and cached.
        drop: Samples the rooted subgraphs of each batch (SubgraphDrop), for training.
            If None, batches have all subgraphs.
        seed: Random seed of the order and of random subgraphs.
        pad: Whether each batch also gets a padded form: the same batch with padding,
            which `TrainingStep` needs to capture CUDA graphs. The batch itself never
            has padding. If None, only batches on a GPU get padded forms. While a
            `TrainingStep` uses padded forms, they are computed with the batches;
            otherwise, a padded form is computed when it is first needed.
        drop_last: Whether to leave out a last batch that is smaller than the others.
            Not allowed with a `Budget`.
        others: Not allowed. An option of PyG's `DataLoader`, such as `num_workers`,
            raises an error with the name of the option.

    Attributes:
        dataset: The argument `graphs`. If this is a name, the `GraphStore` of the data
            set; if it is an iterator, a list of its graphs.
        padded: Whether batches can have a padded form. This needs a fixed `batch_size`,
            and fields with one row per graph, node or edge.

    >>> from torch_geometric.data import Data
    >>> ring = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), x=torch.ones(3, 1))
    >>> loader = GraphLoader([ring] * 5, batch_size=2)
    >>> loader
    GraphLoader(graphs=5, batch_size=2, device='cpu')
    >>> [batch.num_graphs for batch in loader]
    [2, 2, 1]
    """

    def __init__(
        self,
        graphs: object,
        batch_size: int | Budget = 1,
        shuffle: bool = False,
        *,
        device: torch.device | str | None = None,
        subgraphs: Extractor | None = None,
        drop: SubgraphDrop | None = None,
        seed: int = 0,
        pad: bool | None = None,
        drop_last: bool = False,
        **others: object,
    ) -> None:
        refuse_others(GraphLoader, others, ALONE)
        check_flag("shuffle", shuffle)
        check_flag("drop_last", drop_last)
        if pad is not None:
            check_flag("pad", pad)
        batch_size = check_batch_size(batch_size, drop_last)
        seed = as_count("seed", seed)
        check_subgraphs(subgraphs, drop)
        found = find_graphs(graphs)
        fields = read_graphs(found)
        check_field_names(fields.attributes, subgraphs)
        check_has_edges(fields, subgraphs)
        fields = fields.to(usable_device(device) or fields.store.device)
        # The graphs of a name need no memory on the host if they were moved to a GPU.
        self.dataset = fields.store if isinstance(graphs, str) else found
        source = find_subgraphs(fields.store, subgraphs, drop)
        sizes = {"nodes": fields.store.counts[0]}
        if source.cached is not None:
            sizes["copies"] = source.cached.counts[2]
        order = GraphOrder(
            batch_size, sizes, len(fields.store), seed if shuffle else None, drop_last
        )
        size = batch_size if isinstance(batch_size, int) else None
        on_gpu = fields.store.device.type == "cuda"
        wants_padding = size is not None and (on_gpu if pad is None else pad)
        self.padded = wants_padding and not fields.attributes.irregular
        padder = None
        if self.padded and size is not None:
            padder = Padder(size, fields.store.node_targets, Demand(pad is True))
        assembler = Assembler(fields, source, size, padder, not on_gpu, True)
        self.device, self.seed, self.shuffle = fields.store.device, seed, shuffle
        self.subgraphs, self.drop, self._order = subgraphs, drop, order
        self._identity = identify(fields.store.counts)
        self._maker = BatchMaker(fields, subgraphs, padder, wants_padding)
        self._windows = EpochWindows(assembler, order, seed)
        weakref.finalize(self, self._windows.close)
        self._epoch, self._done, self._resumed = 0, 0, False
        self._current: object = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies and pickles; it has no prefetched windows."""
        own = {"_windows": copy(self._windows), "_resumed": True, "_current": None}
        return self.__dict__ | own

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        weakref.finalize(self, self._windows.close)

    @property
    def batch_size(self) -> int | Budget:
        """Number of graphs per batch, or the `Budget` that limits a batch."""
        return self._order.batch_size

    @property
    def drop_last(self) -> bool:
        """Whether a last batch that is smaller than the others is left out."""
        return self._order.drop_last

    @property
    def epoch(self) -> int:
        """Number of the current epoch; between two epochs, that of the next epoch."""
        return self._epoch

    @epoch.setter
    def epoch(self, number: int) -> None:
        self._epoch, self._done = as_count("epoch", number), 0
        self._current = None

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, as `DistributedSampler.set_epoch` does.

        PyTorch Lightning calls this method. After `load_state_dict` in the middle of an
        epoch, it has no effect: the remaining batches of that epoch come first.
        """
        if not (self._resumed and self._done):
            self.epoch = epoch

    def __len__(self) -> int:
        return len(self._order.of_epoch(self._epoch))

    def __iter__(self) -> Iterator[Batch]:
        # An iterator chooses its epoch when its first batch is requested, so that
        # several iterators at the same time, as in `zip(loader, loader)`, differ.
        if self._done and not self._resumed:
            # The last iteration stopped in the middle of its epoch, or still runs.
            self._epoch, self._done = self._epoch + 1, 0
        epoch, done = self._epoch, self._done
        # Only the latest iteration, `_current`, changes the state of the loader.
        current = self._current = object()
        self._resumed = False
        batches = self._order.of_epoch(epoch)
        try:
            with closing(self._windows.of_epoch(epoch, len(batches), done)) as windows:
                for assembled in chain.from_iterable(windows):
                    done += 1
                    if self._current is current:
                        self._done = done
                    yield self._maker.make(*assembled)
        except torch.OutOfMemoryError as error:
            raise SizeError(
                f"a batch of {max(map(len, batches))} graphs does not fit into the "
                f"memory of {self.device}; lower batch_size."
            ) from error
        if self._current is current:
            self._epoch, self._done, self._current = epoch + 1, 0, None

    def state_dict(self) -> dict[str, Any]:
        """Return the number of the epoch and of the next batch, as a checkpoint.

        Pass this dict to `load_state_dict` of a loader that is built with the same
        arguments. That loader then yields the batches that this loader would yield
        next, also in the middle of an epoch.
        """
        return {"epoch": self._epoch, "batch": self._done} | self._built()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where another loader stopped: yield its next batch first.

        Args:
            state: The `state_dict()` of a loader built with the same arguments.

        Raises:
            CheckpointError: If the other loader was built with other arguments, graphs
                or number of processes, if an epoch has too few batches, or if an entry
                of the state is missing or damaged.
            OptionError: If `state` is no dict.
        """
        epoch, done = read_state(state, self._built())
        total = len(self._order.of_epoch(epoch))
        if done > total:
            raise CheckpointError(
                f"the state is after batch {done} of an epoch, but an epoch has "
                f"{counted(total, 'batch')}; give an unchanged state_dict()."
            )
        self._epoch, self._done = epoch, done
        self._resumed, self._current = True, None

    def _built(self) -> dict[str, Any]:
        return {
            "graphs": self._order.count,
            **self._identity,
            "processes": self._order.processes,
            "batch_size": str(self._order.batch_size),
            "drop_last": self._order.drop_last,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "subgraphs": describe(self.subgraphs),
            "drop": repr(self.drop),
        }

    def __repr__(self) -> str:
        options = {
            "graphs": self._order.count,
            "batch_size": self._order.batch_size,
            "shuffle": self.shuffle or None,
            "drop_last": self._order.drop_last or None,
            "subgraphs": self.subgraphs,
            "drop": self.drop,
            "seed": self.seed or None,
            "padded": self.padded or None,
            "device": str(self.device),
        }
        shown = [f"{k}={v!r}" for k, v in options.items() if v is not None]
        return f"GraphLoader({', '.join(shown)})"


class Loader:
    """Iterates over the batches of an epoch, for `gnnak train`.

    It yields an `Item` for each batch, or None if a resumed run skips the batch. While
    the loader waits for a window, the context manager that `timed()` returns is active.
    Without `epochs`, every iteration is epoch 0.
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
        size, padder = sampler.own_size, None
        if padded:
            padder = Padder(size, store.node_targets, Demand(always=True), both=False)
        source = subgraphs or Subgraphs()
        assembler = Assembler(FieldStore(store), source, size, padder, single)
        self.batches, self.timed = sampler, timed
        self.epochs = epochs or Epochs()
        self._windows = EpochWindows(assembler, sampler, self.epochs.seed)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Item]:
        epoch, count, done = self.epochs.now(), len(self), self.epochs.done()
        yield from [None] * done  # type: ignore[misc]
        more = epoch + 1 < self.epochs.count
        with closing(self._windows.of_epoch(epoch, count, done, more)) as windows:
            while True:
                with self.timed():
                    window = next(windows, None)
                if window is None:
                    return
                for assembled in window:
                    yield assembled.item

    def close(self) -> None:
        self._windows.close()


POSITION = ("epoch", "batch")
"""Entries of a `state_dict` that say how far the loader has got."""
ADDED = ("nodes", "edges", "sizes", "processes")
"""Entries that an older `state_dict` may lack. They are not compared if missing."""
DEFAULTS = {"drop_last": False}
"""Entries that an older `state_dict` may lack, and the values used instead."""
UNCHANGED = "give an unchanged state_dict() of a GraphLoader."


def identify(counts: Tensor) -> dict[str, int]:
    """Return `state_dict` entries that tell graphs apart by their nodes and edges."""
    nodes, edges = counts.sum(dim=1).tolist()
    sizes = zlib.crc32(counts.contiguous().numpy().tobytes())
    return {"nodes": nodes, "edges": edges, "sizes": sizes}


def read_state(state: Mapping[str, Any], mine: Mapping[str, Any]) -> tuple[int, int]:
    """Check that `state` fits a loader (`mine`); return its epoch and next batch."""
    if not isinstance(state, Mapping):
        raise OptionError(
            f"the state is {kind_of(state)}; give the state_dict() of a GraphLoader."
        )
    for name in (*POSITION, *mine):
        if name not in state and name not in ADDED and name not in DEFAULTS:
            raise CheckpointError(f"the state has no entry {name!r}; {UNCHANGED}")
    for name, value in mine.items():
        if name in state or name in DEFAULTS:
            _check_entry(name, state.get(name, DEFAULTS.get(name)), value)
    found = []
    for name in POSITION:
        try:
            found.append(as_count(name, state[name]))
        except OptionError as error:
            shown = f"{name}={described(state[name])}"
            raise CheckpointError(f"the state has {shown}; {UNCHANGED}") from error
    epoch, batch = found
    return epoch, batch


def _check_entry(name: str, theirs: Any, mine: int | str) -> None:
    theirs = theirs if isinstance(theirs, str | Number) else kind_of(theirs)
    if theirs == mine:
        return
    if name == "processes":
        raise CheckpointError(
            f"the state is that of a run with processes={theirs}, but this run has "
            f"processes={mine}; continue with as many processes."
        )
    if name == "sizes":
        raise CheckpointError(
            "the state is that of a loader of other graphs, or of the same in another "
            "order; build both with the same graphs."
        )
    same = "graphs" if name in ("graphs", "nodes", "edges") else "arguments"
    raise CheckpointError(
        f"the state is that of a loader with {name}={theirs}, but this one has "
        f"{name}={mine}; build both with the same {same}."
    )

"""`GraphLoader`: batches of many small graphs, assembled on the device."""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from copy import copy
from functools import partial
from itertools import chain
from numbers import Number
from threading import local
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
from gnnak.loading.assembler import Assembler, find_subgraphs
from gnnak.loading.epoch_windows import EpochWindows
from gnnak.loading.order import Budget, GraphOrder, epoch_seed
from gnnak.loading.padder import Demand, Padder
from gnnak.loading.pyg_batch import BatchMaker
from gnnak.loading.sources import (
    arguments_of,
    check_batch_size,
    check_field_names,
    check_flags,
    check_subgraphs,
    find_graphs,
    read_graphs,
    refuse,
    usable_device,
)
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.extractors import Extractor, describe
from gnnak.typing import as_count


class _Blocks(local):
    """The `backward_in_calling_thread` blocks of the current thread."""

    def __init__(self) -> None:
        self.open: list[object] = []
        self.setting: torch.autograd.grad_mode.set_multithreading_enabled | None = None

    def restore(self) -> None:
        """Restore PyTorch's setting before the blocks, if they have changed it."""
        if self.setting is not None:
            self.setting.__exit__(None, None, None)
            self.setting = None


_blocks = _Blocks()


@contextmanager
def backward_in_calling_thread(device: torch.device) -> Iterator[None]:
    """Context manager: on a GPU, run backward passes in the thread that calls them.

    Blocks may overlap without being nested, as with two loaders that are iterated at
    the same time: the setting before the first block is restored after the last one.
    If the last block of a thread is left by another thread, or in inference mode, the
    setting is restored after the next block of the first thread.

    Args:
        device: The device of the batches. If it is no GPU, nothing is changed, nor is
            it in inference mode, which has no backward passes.

    >>> with backward_in_calling_thread(torch.device("cuda")):
    ...     torch._C._is_multithreading_enabled()
    False
    """
    if device.type != "cuda" or torch.is_inference_mode_enabled():
        yield
        return
    opened, block = _blocks.open, object()
    if not opened:
        _blocks.restore()
        _blocks.setting = torch.autograd.set_multithreading_enabled(False)
    opened.append(block)
    try:
        yield
    finally:
        opened.remove(block)
        same_thread = opened is _blocks.open
        # Inference mode would overwrite the setting at its end.
        if same_thread and not opened and not torch.is_inference_mode_enabled():
            _blocks.restore()


POSITION = ("epoch", "batch")
"""Entries that say where the loader was."""
ADDED = ("nodes", "edges", "sizes", "processes")
"""Entries that states of older versions do not have."""
DEFAULTS = {"drop_last": False}
"""Entries that states of older versions do not have either, and what they mean then."""
COUNTS = ("graphs", "nodes", "edges")
"""Entries that count what the data set of a loader has."""
UNCHANGED = "give an unchanged state_dict() of a GraphLoader."
"""What to do about a state that is not complete."""


def identify(counts: Tensor) -> dict[str, int]:
    """Return what the state of a loader says of its graphs.

    Args:
        counts: Numbers of nodes and of edges of each of the g graphs, on the CPU,
            [2, g].

    Returns:
        The number of all nodes and of all edges, and a checksum of the sizes of all
        graphs, which depends on the order of the graphs.

    >>> import torch
    >>> identify(torch.tensor([[3, 4], [2, 6]]))
    {'nodes': 7, 'edges': 8, 'sizes': 4175228841}
    >>> identify(torch.tensor([[4, 3], [6, 2]]))
    {'nodes': 7, 'edges': 8, 'sizes': 556435510}
    """
    nodes, edges = counts.sum(dim=1).tolist()
    sizes = zlib.crc32(counts.contiguous().numpy().tobytes())
    return {"nodes": nodes, "edges": edges, "sizes": sizes}


def read_state(state: Mapping[str, Any], mine: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of the epoch and of the next batch that a state contains.

    Args:
        state: The `state_dict()` of a loader.
        mine: The arguments of the loader that is to continue its epoch, by name, as
            `state_dict()` returns them.

    Raises:
        CheckpointError: If the loaders were built with other arguments, or if the state
            is not complete.
        OptionError: If the state is no dict.
    """
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
    epoch, batch = (_number(name, state[name]) for name in POSITION)
    return epoch, batch


def _check_entry(name: str, theirs: Any, mine: int | str) -> None:
    """Raise `CheckpointError` unless both loaders have the same value of an argument.

    Args:
        name: Name of the argument, or of something else that the batches depend on.
        theirs: Its value in the state.
        mine: Its value in the loader that is to continue the epoch.
    """
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
    same = "graphs" if name in COUNTS else "arguments"
    raise CheckpointError(
        f"the state is that of a loader with {name}={theirs}, but this one has "
        f"{name}={mine}; build both with the same {same}."
    )


def _number(name: str, value: object) -> int:
    """Return a number of a state as an int; raise `CheckpointError` if it is none."""
    try:
        return as_count(name, value)
    except OptionError as error:
        raise CheckpointError(
            f"the state has {name}={described(value)}; {UNCHANGED}"
        ) from error


if TYPE_CHECKING:
    from torch_geometric.data import Batch


class GraphLoader:
    """Iterate over batches of many small graphs; a replacement of PyG's `DataLoader`.

    All graphs are moved to `device` once. Batches are assembled there, without a loop
    over graphs. On a GPU, several batches are assembled at once, and prefetched. A
    batch is a PyG `Batch` with all fields of the graphs. With `subgraphs`, the rooted
    subgraphs of a batch are in its field `subgraphs`. An uplifted model or a network
    that is called with the batch's `edge_index` uses these subgraphs, and extracts
    none.

    Each iteration is one epoch. The batches of an epoch depend only on `seed` and on
    the number of the epoch, which can be set: `loader.epoch = 3`. The arguments cannot
    be changed later. In distributed training (`torch.distributed`), each process gets
    its part of the graphs.

    Args:
        graphs: A list of PyG `Data` with the same fields, a PyG data set, another data
            set of `Data` with `__len__` and `__getitem__`, a `gnnak.graphs.GraphStore`,
            or the name of a data set or of a part of it, such as "zinc" or
            "zinc/train". The `transform` of a PyG data set is applied once, when the
            graphs are read, and not anew in each epoch.
        batch_size: Number of graphs per batch; or a `Budget`, which limits the number
            of nodes or node copies (a node as it occurs in one rooted subgraph) of a
            batch.
        shuffle: Whether the graphs are in a random order, a new one in each epoch.
        device: The device of the batches; None = that of the graphs.
        subgraphs: Extracts the rooted subgraphs, for example `EgoNets(3)`; None =
            batches have no subgraphs. Subgraphs that are not random and fit into memory
            are extracted once, and cached.
        drop: Samples the rooted subgraphs of each batch (SubgraphDrop), for training;
            None = batches have all subgraphs.
        seed: Random seed of the order and of random subgraphs.
        pad: Whether to compute, for each batch, also a padded form, which
            `TrainingStep` needs to capture CUDA graphs. The batch itself never has
            padding. None = on a GPU, as long as a `TrainingStep` uses the padded forms;
            other batches are padded when a `TrainingStep` first gets them.
        drop_last: Whether to leave out a last batch that is smaller than the others;
            not with a `Budget`.
        multithreaded_backward: Whether PyTorch may run backward passes in a second
            thread, which is its default on a GPU. If False, they run in the calling
            thread while the loader is iterated, which takes less time for a model on
            one GPU; on a CPU, they always do.
        unsupported: Other arguments of PyG's `DataLoader` are refused; the error says
            what to do instead.

    Attributes:
        dataset: The argument `graphs`. For a name, the `GraphStore` of its graphs; for
            an iterator, the list of its graphs.
        padded: Whether batches can have a padded form. They cannot with a `Budget`, or
            if a field has neither one row per graph, nor per node, nor per edge.

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
        graphs: object = None,
        batch_size: int | Budget = 1,
        shuffle: bool = False,
        *,
        device: torch.device | str | None = None,
        subgraphs: Extractor | None = None,
        drop: SubgraphDrop | None = None,
        seed: int = 0,
        pad: bool | None = None,
        drop_last: bool = False,
        multithreaded_backward: bool = False,
        **unsupported: object,
    ) -> None:
        refuse(unsupported, ARGUMENTS)
        flags = {"shuffle": shuffle, "drop_last": drop_last}
        check_flags(pad, multithreaded_backward=multithreaded_backward, **flags)
        batch_size = check_batch_size(batch_size, drop_last)
        seed = as_count("seed", seed)
        check_subgraphs(subgraphs, drop)
        found = find_graphs(graphs)
        fields = read_graphs(found)
        check_field_names(fields.attributes, subgraphs)
        fields = fields.to(usable_device(device) or fields.store.device)
        # The graphs of a name need no memory on the host if they were moved to a GPU.
        self.dataset = fields.store if isinstance(graphs, str) else found
        source = find_subgraphs(fields.store, subgraphs, drop)
        sizes = {"nodes": fields.store.counts[0]}
        if source.cached is not None:
            sizes["copies"] = source.cached.counts[2]
        count, fixed = len(fields.store), not isinstance(batch_size, Budget)
        shuffled = seed if shuffle else None
        order = GraphOrder(batch_size, sizes, count, shuffled, drop_last)
        wanted = fields.store.device.type == "cuda" if pad is None else pad
        wants_padding = wanted and fixed
        self.padded = wants_padding and not fields.attributes.irregular
        size = batch_size if isinstance(batch_size, int) else None
        padder = None
        if self.padded and size is not None:
            padder = Padder(size, fields.store.node_targets, Demand(pad is True))
        single = fields.store.device.type != "cuda"
        assembler = Assembler(fields, source, size, padder, single)
        self.device, self.seed, self.shuffle = fields.store.device, seed, shuffle
        self.subgraphs, self.drop, self._order = subgraphs, drop, order
        self.multithreaded_backward = multithreaded_backward
        self._identity = identify(fields.store.counts)
        self._make = BatchMaker(fields, subgraphs, padder, wants_padding)
        seeds = partial(epoch_seed, seed, rank=order.rank)
        self._windows = EpochWindows(assembler, order, seeds, reseed=True)
        weakref.finalize(self, self._windows.close)
        self._epoch, self._done, self._resumed = 0, 0, False
        self._current: object = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy or a pickle, which continues as `state_dict` says.

        The copy does not share the window that is prefetched for the next epoch.
        """
        own = {"_windows": copy(self._windows), "_resumed": True, "_current": None}
        return self.__dict__ | own

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        weakref.finalize(self, self._windows.close)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse to change an argument: `state_dict` and the caches depend on it."""
        if name in FIXED and "_epoch" in self.__dict__:
            raise OptionError(
                f"{name} of a GraphLoader cannot be changed; build another loader."
            )
        super().__setattr__(name, value)

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
        """Number of the current epoch; between two epochs, that of the next one."""
        return self._epoch

    @epoch.setter
    def epoch(self, number: int) -> None:
        self._epoch, self._done = as_count("epoch", number), 0
        self._current = None

    def __len__(self) -> int:
        return len(self._order.of_epoch(self._epoch))

    def __iter__(self) -> Iterator[Batch]:
        # An iterator chooses its epoch when its first batch is requested, so that
        # several iterators at the same time, as in `zip(loader, loader)`, differ.
        if self._done and not self._resumed:
            # The last iteration stopped in the middle of its epoch, or still runs.
            self._epoch, self._done = self._epoch + 1, 0
        self._resumed, self._current = False, object()
        leave = self.multithreaded_backward
        with nullcontext() if leave else backward_in_calling_thread(self.device):
            yield from self._batches(self._epoch, self._done, self._current)

    def _batches(self, epoch: int, done: int, current: object) -> Iterator[Batch]:
        """Yield the batches of an epoch, and count them in `_done`.

        Args:
            epoch: Number of the epoch.
            done: Number of batches to skip.
            current: Identifies this iteration. Only the latest iteration changes the
                state of the loader.
        """
        batches = self._order.of_epoch(epoch)
        try:
            with closing(self._windows.of_epoch(epoch, len(batches), done)) as windows:
                for assembled in chain.from_iterable(windows):
                    done += 1
                    if self._current is current:
                        self._done = done
                    yield self._make(assembled)
        except torch.OutOfMemoryError as error:
            raise SizeError(
                f"a batch of {max(map(len, batches))} graphs does not fit into the "
                f"memory of {self.device}; lower batch_size."
            ) from error
        if self._current is current:
            self._epoch, self._done, self._current = epoch + 1, 0, None

    def state_dict(self) -> dict[str, Any]:
        """Return the number of the epoch and of the next batch, as a checkpoint.

        A loader that is built with the same arguments and gets this dict by
        `load_state_dict` continues with the batch after the last one that this loader
        yielded, also in the middle of an epoch.
        """
        return {"epoch": self._epoch, "batch": self._done} | self._built()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue another loader's epoch: the next iteration yields its next batch.

        Args:
            state: The `state_dict()` of a loader that was built with the same
                arguments.

        Raises:
            CheckpointError: If that loader was built with other arguments or graphs, or
                in another number of processes, if an epoch has too few batches, or if
                an entry of the state is missing or damaged.
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
        """Return the arguments that the batches of an epoch depend on, by name."""
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
            "multithreaded_backward": self.multithreaded_backward or None,
            "device": str(self.device),
        }
        shown = [f"{k}={v!r}" for k, v in options.items() if v is not None]
        return f"GraphLoader({', '.join(shown)})"


ARGUMENTS = arguments_of(GraphLoader)
"""The names of the arguments of `GraphLoader`."""
FIXED = (*ARGUMENTS, "dataset", "padded")
"""The attributes that cannot be changed after a `GraphLoader` is built."""

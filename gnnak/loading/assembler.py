"""Assemble batches, with and without padding, and with their rooted subgraphs."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.errors import SizeError
from gnnak.graphs.readers.pyg_fields import FieldStore
from gnnak.loading.budget import into_windows
from gnnak.loading.epochs import epoch_seed
from gnnak.loading.items import Item
from gnnak.loading.loader import Subgraphs, window_shares
from gnnak.loading.padder import Padder
from gnnak.loading.prefetch import Prefetcher, prefetch
from gnnak.loading.splitting import split
from gnnak.loading.windows import make_window


class Assembled(NamedTuple):
    """A batch without padding and, if it is needed, the same batch with padding."""

    item: Item
    """The batch, without padding."""
    padded: Item | None
    """The padded form: the same batch, padded to one of a few sizes; None = there is no
    padded form."""


Windows = Generator[list[Assembled], None, None] | Prefetcher[list[Assembled]]
"""An iterator over windows: lists of batches that were assembled together."""


class Assembler:
    """Assembles batches from graphs on a device, several batches at a time on a GPU.

    Several consecutive batches that are assembled together are called a window. On a
    GPU, the next window is prefetched. The random subgraphs of a window depend only on
    the seed and on the number of its first batch.

    Args:
        graphs: The graphs, with all fields.
        subgraphs: Where the rooted subgraphs of a batch come from.
        batch_size: Number of graphs of a full batch; None = it varies.
        padder: Pads batches; None = batches are not padded.
    """

    def __init__(
        self,
        graphs: FieldStore,
        subgraphs: Subgraphs,
        batch_size: int | None,
        padder: Padder | None,
    ) -> None:
        self.graphs, self.subgraphs, self.padder = graphs, subgraphs, padder
        store = graphs.store
        self.share = torch.ones(len(store))
        if store.device.type == "cuda":
            self.share = window_shares(store, subgraphs, batch_size or len(store))

    def windows(self, batches: Sequence[Tensor], seed: int, first: int = 0) -> Windows:
        """Return an iterator over windows, from batch `first` on.

        Args:
            batches: All batches of an epoch, as positions of their graphs.
            seed: Random seed of the epoch, for the rooted subgraphs.
            first: Number of the first batch to assemble.
        """
        device = self.graphs.store.device
        if self.padder is not None:
            self.padder.demand.begin_epoch()

        def assembled() -> Generator[list[Assembled], None, None]:
            """Yield the windows, the first one without its batches before `first`."""
            done = 0
            for window in into_windows(batches, self.share):
                skipped, begin = max(first - done, 0), done
                done += len(window)
                if skipped < len(window):
                    generator = torch.Generator(device)
                    generator.manual_seed(epoch_seed(seed, begin))
                    yield self._assemble(window, generator)[skipped:]

        return prefetch(assembled(), device)

    def _assemble(
        self, batches: list[Tensor], generator: torch.Generator
    ) -> list[Assembled]:
        """Assemble the batches of a window.

        Raises:
            SizeError: If the device has too little memory.
        """
        device = self.graphs.store.device
        try:
            items, padded = self._items(batches, generator)
        except torch.OutOfMemoryError as error:
            most = max(map(len, batches))
            raise SizeError(
                f"a batch of {most} graphs does not fit into the memory of {device}; "
                "lower batch_size."
            ) from error
        found = []
        for item, form, graphs in zip_longest(items, padded, batches):
            extra = item.extra | self.graphs.attributes.others(graphs)
            item = replace(item, extra=extra, positions=graphs.tolist())
            found.append(Assembled(item, form))
        return found

    def _items(
        self, batches: list[Tensor], generator: torch.Generator
    ) -> tuple[list[Item], list[Item]]:
        """Return the batches of a window without padding, and the padded batches.

        There may be fewer padded batches, or none.
        """
        store, attributes = self.graphs.store, self.graphs.attributes
        positions = torch.cat(batches)
        graphs = store[positions]
        subgraphs = self.subgraphs.of(graphs, positions, generator)
        rows = attributes.rows(store, positions) if attributes.tensors else {}
        on_gpu = store.device.type == "cuda"
        if len(batches) == 1 and not on_gpu and self.padder is None:
            return [Item(graphs, subgraphs, extra=rows)], []
        sizes = [len(batch) for batch in batches]
        axes = {name: str(attributes.tensors[name].axis) for name in rows}
        extra = {name: (axes[name], value) for name, value in rows.items()}
        window = make_window(graphs, subgraphs, sizes, store.node_targets, extra)
        items: list[Item] = []
        padded: list[Item] = []
        if self.padder is not None:
            padded, items = self.padder.pad_if_used(window)
        if len(items) < len(batches):
            groups = on_gpu and subgraphs is not None
            items += split(window, groups, first_batch=len(items))
        return items, padded

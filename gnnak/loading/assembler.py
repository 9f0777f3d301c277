"""Assemble batches, with and without padding, and with their rooted subgraphs."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.graphs.readers.pyg_fields import FieldStore
from gnnak.loading.items import Item
from gnnak.loading.padder import Padder
from gnnak.loading.splitting import split
from gnnak.loading.subgraph_source import Subgraphs, window_shares
from gnnak.loading.windows import make_window


class Assembled(NamedTuple):
    """A batch and, if it is needed, the same batch with padding."""

    item: Item
    """The batch. It has no padding, unless the padder replaces batches by padded ones
    (`Padder.both` is False)."""
    padded: Item | None
    """The padded form: the same batch, padded to one of a few sizes; None = there is no
    padded form."""


class Assembler:
    """Assembles batches from graphs on a device: those of a window together.

    A window is several consecutive batches on a GPU, and a single batch on a CPU.

    Args:
        graphs: The graphs, with all fields.
        subgraphs: Where the rooted subgraphs of a batch come from.
        batch_size: Number of graphs of a full batch; None = it varies.
        padder: Pads batches; None = batches are not padded.
        single: Whether every window is a single batch. If False, the memory budget
            decides how many batches a window has.

    Attributes:
        share: Fraction of the memory budget that each of the g graphs takes, [g].
    """

    def __init__(
        self,
        graphs: FieldStore,
        subgraphs: Subgraphs,
        batch_size: int | None,
        padder: Padder | None,
        single: bool,
    ) -> None:
        self.graphs, self.subgraphs, self.padder = graphs, subgraphs, padder
        store, self.device = graphs.store, graphs.store.device
        self.share = torch.ones(len(store), device="cpu")
        if not single:
            size = min(batch_size or len(store), len(store))
            self.share = window_shares(store, subgraphs, size)

    def begin_epoch(self) -> None:
        """Tell the padder that the windows of an epoch are going to be assembled."""
        if self.padder is not None:
            self.padder.demand.begin_epoch()

    def is_training_captured(self) -> bool:
        """Return whether batches are used in captured steps, as far as is known.

        Captured steps use padded forms. If batches are never padded, nothing is known
        about the steps, and the answer is True.
        """
        return self.padder is None or self.padder.demand.is_expected()

    def assemble(
        self, batches: list[Tensor], generator: torch.Generator
    ) -> list[Assembled]:
        """Assemble the batches of a window.

        Args:
            batches: For each batch, the positions of its graphs.
            generator: Source of randomness, for the rooted subgraphs.
        """
        items, padded = self._items(batches, generator)
        found = []
        for item, form, graphs in zip_longest(items, padded, batches):
            extra = item.extra | self.graphs.attributes.others(graphs)
            item = replace(item, extra=extra, positions=graphs.tolist())
            found.append(Assembled(item, form))
        return found

    def _items(
        self, batches: list[Tensor], generator: torch.Generator
    ) -> tuple[list[Item], list[Item]]:
        """Return the batches of a window, and their padded forms.

        There may be fewer padded forms than batches, or none.
        """
        store, attributes = self.graphs.store, self.graphs.attributes
        positions = torch.cat(batches)
        graphs = store[positions]
        subgraphs = self.subgraphs.of(graphs, positions, generator)
        rows = attributes.rows(store, positions) if attributes.tensors else {}
        groups = self.device.type == "cuda" and subgraphs is not None
        if len(batches) == 1 and not groups and self.padder is None:
            return [Item(graphs, subgraphs, extra=rows)], []
        sizes = [len(batch) for batch in batches]
        axes = {name: str(attributes.tensors[name].axis) for name in rows}
        extra = {name: (axes[name], value) for name, value in rows.items()}
        counts = self.subgraphs.counts(store, positions)
        window = make_window(
            graphs, subgraphs, sizes, store.node_targets, extra, counts
        )
        items: list[Item] = []
        padded: list[Item] = []
        if self.padder is not None:
            padded, items = self.padder.pad_if_used(window)
        if len(items) < len(batches):
            items += split(window, groups, first_batch=len(items))
        return items, padded

"""Batches for the comparison of a model with and without padding."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gnnak.loading.items import Item
from gnnak.training.own_loop.padding import disturbed, padded_rows

if TYPE_CHECKING:
    from torch_geometric.data import Batch


def copied(batch: Batch) -> Batch:
    """Return a copy of a batch, which a model may change without changing the batch.

    Features and targets are copied, but not `edge_index`: subgraphs are attached to it.
    """
    return _with(batch, lambda value: value.clone())


def disturbed_batch(batch: Batch, item: Item) -> Batch:
    """Return a copy of a padded batch with large random numbers in its padding rows.

    Args:
        batch: The padded batch, for the model.
        item: The same batch.
    """
    rows = padded_rows(item)
    return _with(batch, lambda value: disturbed(value, rows))


def _with(batch: Batch, change: Any) -> Batch:
    """Return a copy of a batch with other values of its floating-point fields."""
    found = copy.copy(batch)
    for name, value in batch._store.items():
        if isinstance(value, Tensor) and value.is_floating_point():
            found[name] = change(value)
    return found

"""Batches for the comparison of a model with and without padding."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

from gnnak.loading.forms import is_structure
from gnnak.loading.items import Item
from gnnak.training.own_loop.padding import disturbed, padded_rows

if TYPE_CHECKING:
    from torch_geometric.data import Batch


def copied(batch: Batch) -> Batch:
    """Return a copy of a batch, which a model may change without changing the batch.

    The copy has the same tensor `edge_index`, since subgraphs are attached to it.
    """
    return _with(batch, Tensor.clone)


def disturbed_batch(batch: Batch, item: Item) -> Batch:
    """Return a copy of a padded batch with other values in its padding rows.

    These are large random numbers, and copies of real rows; see `disturbed`.

    Args:
        batch: The padded batch, for the model.
        item: The same batch.
    """
    rows = padded_rows(item)
    return _with(batch, lambda value: disturbed(value.clone(), rows))


def _with(batch: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    """Return a copy of a batch with changed tensors, except for its edges and graphs.

    Args:
        batch: The batch.
        change: Returns the new value of a field.
    """
    found = copy.copy(batch)
    for name, value in batch._store.items():
        if isinstance(value, Tensor) and not is_structure(name, value):
            found[name] = change(value)
    return found

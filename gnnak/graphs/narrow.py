"""Whole numbers in as few bytes as they need: what is kept of many graphs is small."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gnnak.graphs.store import GraphStore

NARROW = (torch.int8, torch.int16, torch.int32)


def narrow(values: Tensor) -> Tensor:
    """The same whole numbers, in the narrowest type that holds them.

    What int64 numbers are added to them is int64 again.

    >>> narrow(torch.tensor([0, 127])).dtype, narrow(torch.tensor([128])).dtype
    (torch.int8, torch.int16)
    """
    least, most = (int(end) for end in values.aminmax()) if values.numel() else (0, 0)
    kinds = ((kind, torch.iinfo(kind)) for kind in NARROW)
    fitting = (kind for kind, of in kinds if of.min <= least and most <= of.max)
    return values.to(next(fitting, torch.int64))


def narrow_store(store: GraphStore) -> GraphStore:
    """A store to make batches of: the ends of its edges are `narrow`, not int64."""
    return replace(store, edge_index=narrow(store.edge_index))

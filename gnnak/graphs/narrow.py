"""Store int64 tensors in a smaller integer type to save memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gnnak.graphs.store import GraphStore

NARROW = (torch.int8, torch.int16, torch.int32)


def narrow(values: Tensor) -> Tensor:
    """Convert integers to the smallest signed integer type that can represent them.

    Adding an int64 tensor to the result gives int64 again, by PyTorch's type promotion.

    >>> narrow(torch.tensor([0, 127])).dtype, narrow(torch.tensor([128])).dtype
    (torch.int8, torch.int16)
    """
    least, most = (int(end) for end in values.aminmax()) if values.numel() else (0, 0)
    kinds = ((kind, torch.iinfo(kind)) for kind in NARROW)
    fitting = (kind for kind, of in kinds if of.min <= least and most <= of.max)
    return values.to(next(fitting, torch.int64))


def narrow_store(store: GraphStore) -> GraphStore:
    """Return a copy of the store with the smallest integer type for `edge_index`."""
    return replace(store, edge_index=narrow(store.edge_index))

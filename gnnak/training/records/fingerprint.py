"""A fingerprint of the graphs, targets and splits of a data set."""

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from gnnak.datasets.record import Dataset

CHUNK = 1 << 24
"""Number of bytes that are hashed at a time; chunks are hashed in parallel."""


def fingerprint(dataset: Dataset) -> str:
    """Return a hash of a data set (16 hexadecimal digits).

    Two data sets have the same hash if their graphs, features, targets, split and folds
    are equal, up to chance. The name of the data set does not matter.
    """
    store = dataset.store
    tensors = {
        "num_nodes": store.num_nodes,
        "num_edges": store.num_edges,
        "edge_index": store.edge_index,
        "x": store.x,
        "edge_attr": store.edge_attr,
        "y": store.y,
        "split": dataset.split,
        "folds": dataset.folds,
    }
    whole = hashlib.sha256()
    with ThreadPoolExecutor() as threads:
        for name, tensor in tensors.items():
            if tensor is not None:
                whole.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
                for part in threads.map(_digest, _chunks(tensor)):
                    whole.update(part)
    return whole.hexdigest()[:16]


def _chunks(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the bytes of a tensor, at most `CHUNK` at a time."""
    flat = tensor.detach().cpu().contiguous().view(-1)
    yield from flat.view(torch.uint8).split(CHUNK)


def _digest(chunk: Tensor) -> bytes:
    content: Any = chunk.numpy()
    return hashlib.sha256(content).digest()

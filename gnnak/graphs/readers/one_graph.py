"""One large graph: its masks of nodes, and its npz layout."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from gnnak.errors import GraphError

MASKS = ("train_mask", "val_mask", "test_mask")
"""Names of the masks of training, validation and test nodes, as in PyG."""
SPARSE_X = ("x_indptr", "x_indices", "x_shape", "x_values")
"""Keys of a sparse feature matrix in the CSR form of SciPy; `x_values` is optional."""
KEYS = (*SPARSE_X, *MASKS)
"""Keys that only a file of one graph may have."""
DENSE_PER_ENTRY = 1000
"""A sparse matrix is refused if it has more entries per stored entry than this."""


def split_of_masks(masks: Mapping[str, Tensor], num_nodes: int) -> Tensor:
    """Convert masks of nodes, [n] or [n, splits], to splits, [n] or [splits, n]."""
    columns = {}
    for name, mask in masks.items():
        if mask.dtype != torch.bool or mask.dim() not in (1, 2):
            told = f"{name} is {mask.dtype} {list(mask.shape)}; give a bool for every"
            raise GraphError(f"{told} node, [n], or one column per split, [n, k].")
        columns[name] = mask[:, None] if mask.dim() == 1 else mask
        if mask.size(0) != num_nodes:
            told = f"{name} has {mask.size(0)} rows, but the graph has {num_nodes}"
            raise GraphError(f"{told} nodes; give one row for every node.")
    widths = {mask.size(1) for mask in columns.values()}
    count = max(widths)
    if widths - {1, count}:
        told = f"the masks have {' and '.join(map(str, sorted(widths)))} columns"
        raise GraphError(f"{told}; give all masks one column per split.")
    split = torch.full((num_nodes, count), -1)
    for part, name in enumerate(MASKS):
        if name not in columns:
            continue
        chosen = columns[name].cpu().expand(-1, count)
        twice = (chosen & (split >= 0)).any(dim=1).nonzero()
        if twice.numel():
            told = f"node {int(twice[0])} is in {name} and in another mask of the same"
            raise GraphError(f"{told} split; put every node into at most one.")
        split[chosen] = part
    return split[:, 0] if count == 1 else split.t().contiguous()


def in_usual_layout(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Convert arrays of a one-graph file to the layout of files of many graphs."""
    found = {key: value for key, value in arrays.items() if key not in KEYS}
    if any(key in arrays for key in SPARSE_X):
        found["x"] = _dense(arrays)
    rows = [len(found[key]) for key in ("x", "y") if key in found and found[key].ndim]
    alone = "edge_index" in found and "num_nodes" not in found
    if alone and "num_edges" not in found and rows:
        if len(set(rows)) > 1:
            raise GraphError(
                f"x has {rows[0]} rows and y has {rows[1]}, but the keys num_nodes and "
                "num_edges are missing; add them, or give one y for every node of one "
                "graph"
            )
        found["num_nodes"] = np.array(rows[:1])
        found["num_edges"] = np.array(found["edge_index"].shape[-1:])
        found["node_targets"] = np.array("y" in found)
    if found.get("split", np.zeros(0)).shape[:1] == (1,) and found["split"].ndim == 2:
        found["split"] = found["split"][0]
    if masks := [key for key in MASKS if key in arrays]:
        if "split" in found or "num_nodes" not in found or len(found["num_nodes"]) != 1:
            reason = "a split, too" if "split" in found else "more than one graph"
            raise GraphError(f"it has {masks[0]}, but {reason}; leave out one of both")
        named = {key: torch.from_numpy(arrays[key]) for key in masks}
        found["split"] = split_of_masks(named, int(found["num_nodes"][0])).numpy()
    return found


def _dense(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the sparse feature matrix as a dense float32 matrix."""
    missing = [key for key in SPARSE_X[:3] if key not in arrays]
    if missing or "x" in arrays:
        told = f"lacks {missing[0]}" if missing else "has x and a sparse x"
        wanted = "x, or x_indptr, x_indices and x_shape of its CSR form"
        raise GraphError(f"it {told}; give {wanted}")
    start, column, shape, *_ = (arrays[key] for key in SPARSE_X[:3])
    whole = all(each.dtype.kind in "iu" for each in (start, column, shape))
    fits = whole and shape.shape == (2,) and start.shape == (int(shape[0]) + 1,)
    value = arrays.get("x_values", np.ones(column.shape, np.float32))
    counts = start[1:].astype(np.int64) - start[:-1] if fits else np.zeros(0, np.int64)
    if (
        not fits
        or column.ndim != 1
        or value.shape != column.shape
        or (counts < 0).any()
        or counts.sum() != len(column)
        or (len(column) and not 0 <= column.min() <= column.max() < shape[1])
    ):
        told = "x_indptr, x_indices, x_shape and x_values are not a matrix in CSR form"
        raise GraphError(f"{told}; write those of a scipy.sparse.csr_matrix")
    size = int(shape[0]) * int(shape[1])
    if size > DENSE_PER_ENTRY * max(len(column), 1 << 20):
        told = f"x would have {size:,} entries, {DENSE_PER_ENTRY} times as many as the"
        raise GraphError(f"{told} sparse x; reduce its columns")
    dense = np.zeros(tuple(shape.tolist()), np.float32)
    np.add.at(dense, (np.repeat(np.arange(len(counts)), counts), column), value)
    return dense

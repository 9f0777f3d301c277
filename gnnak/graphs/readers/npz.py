"""The npz layout: graphs, split and folds of a data set in a few numpy arrays."""

from __future__ import annotations

import difflib
import io
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Literal, TypeVar, get_args

import numpy as np
import torch
from torch import Tensor

from gnnak.errors import FileFormatError, GraphError
from gnnak.graphs.readers import files
from gnnak.graphs.store import (
    GraphStore,
    two_way_edges,
    with_reverse_edges,
    without_reverse_edges,
)
from gnnak.typing import check_choice

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True, eq=False)
class GraphFile:
    """The content of a data set file: graphs, their splits, and names of categories.

    In shapes, g is the number of graphs, and n the number of nodes of all graphs.
    """

    store: GraphStore
    """The graphs; may be empty."""
    split: Tensor | None = None
    """[g], int64: 0 for training, 1 for validation, 2 for test graphs; None without a
    split. A split of one graph's nodes is [n], or [splits, n] for several splits, with
    -1 for unused nodes."""
    folds: Tensor | None = None
    """[folds, g], int64: the part of each graph in each cross-validation fold: 0 train,
    1 test, -1 not used. None without folds."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Lists of category names; keys end in "_names". For example,
    `names["atom_names"][3]` is the name of atom type 3."""

    def indices(self, part: Part) -> Tensor:
        """Return the positions of the graphs in one part of the split, sorted.

        Args:
            part: "train", "validation" or "test".
        """
        check_choice("part", part, PARTS)
        if self.split is None:
            raise GraphError("these graphs have no split; choose indices yourself.")
        return (self.split == PARTS.index(part)).nonzero().flatten()

    def fold(self, index: int) -> tuple[Tensor, Tensor]:
        """Return the positions of the training and of the test graphs of a fold.

        Args:
            index: Number of the cross-validation fold, from 0.
        """
        count = 0 if self.folds is None else self.folds.size(0)
        if self.folds is None or not 0 <= index < count:
            raise GraphError(f"there is no fold {index}; these graphs have {count}.")
        train, test = ((self.folds[index] == role).nonzero() for role in (0, 1))
        return train.flatten(), test.flatten()

    def check(self) -> GraphFile:
        """Check that fields are as the class documents them, and return this object.

        Raises:
            GraphError: If a field is wrong; the message names the first one.
        """
        self.store.check()
        size = len(self.store)
        if self.split is not None:
            of_nodes = splits_nodes(self.store, self.split)
            shape = "[k, n]" if of_nodes else f"[{size}], one entry for every graph"
            _check_codes("split", self.split, shape, -1 if of_nodes else 0, 2)
            if not of_nodes and list(self.split.shape) != [size]:
                found = list(self.split.shape)
                raise GraphError(f"split has shape {found}; give {shape}.")
        if self.folds is not None:
            shape = f"[k, {size}], one row for every fold"
            _check_codes("folds", self.folds, shape, -1, 1)
            if self.folds.dim() != 2 or self.folds.size(1) != size:
                found = list(self.folds.shape)
                raise GraphError(f"folds has shape {found}; give {shape}.")
        for key in self.names:
            if not key.endswith("_names"):
                raise GraphError(f"names has {key!r}; keys must end in '_names'.")
        return self


def splits_nodes(store: GraphStore, split: Tensor) -> bool:
    whole = len(store) == 1 and store.node_targets and isinstance(split, Tensor)
    return whole and split.dim() in (1, 2) and split.size(-1) == int(store.node_ptr[-1])


def _check_codes(name: str, value: object, shape: str, low: int, high: int) -> None:
    if not isinstance(value, Tensor) or value.dtype != torch.long:
        raise GraphError(f"{name} must be an int64 tensor of shape {shape}.")
    wrong = value[(value < low) | (value > high)]
    if wrong.numel():
        codes = f"only {low} to {high} are valid codes"
        raise GraphError(f"{name} holds {int(wrong[0])}; {codes}.")


MASKS = ("train_mask", "val_mask", "test_mask")
"""Names of the masks of training, validation and test nodes, as in PyG."""
SPARSE_X = ("x_indptr", "x_indices", "x_shape", "x_values")
"""Keys of a sparse feature matrix in the CSR form of SciPy; `x_values` is optional."""
ONE_GRAPH_KEYS = (*SPARSE_X, *MASKS)
"""Keys that only a file of one graph may have."""
DENSE_PER_ENTRY = 1000
"""A sparse matrix may have at most this many elements per stored element. A matrix with
fewer than 2^20 stored elements counts as one with 2^20."""


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
    found = {key: value for key, value in arrays.items() if key not in ONE_GRAPH_KEYS}
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


END = b"PK\x05\x06"
"""First bytes of the end record of a zip file, which tells the number of members."""
END_BYTES = 22
"""Bytes of a zip file's end record, after which a comment of up to 2^16 may follow."""
MANY = 0xFFFF
"""The number of members in the end record if the file has this many members or more."""


def check_entries(content: IO[bytes]) -> None:
    """Raise `GraphError` unless a zip file has as many members as it announces."""
    size = content.seek(0, 2)
    content.seek(max(0, size - END_BYTES - MANY))
    tail = content.read()
    place = tail.rfind(END)
    announced = int.from_bytes(tail[place + 10 : place + 12], "little")
    with zipfile.ZipFile(content) as archive:
        found = len(archive.infolist())
    if place < 0 or (announced != MANY and announced != found):
        told = f"it lists {found} arrays, but should have {announced}"
        raise GraphError(f"{told}; the file is damaged, copy it again")


LARGEST = np.iinfo(np.int64).max


def to_tensor(key: str, array: np.ndarray, whole: bool) -> Tensor:
    """Copy an array to a tensor, int64 or float. If `whole`, it must have integers."""
    if whole and array.dtype.kind not in "iu":
        raise GraphError(f"{key} has dtype {array.dtype}; write integers.")
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))
    if array.dtype.kind not in "iub":
        raise GraphError(f"{key} has dtype {array.dtype}; write numbers.")
    if array.dtype.kind == "u" and array.size and array.max() > LARGEST:
        raise GraphError(f"{key} contains {array.max()}, too large for int64.")
    return torch.from_numpy(array.astype(np.int64))


def to_array(key: str, tensor: Tensor) -> np.ndarray:
    """Convert a tensor to a numpy array; integers get the smallest dtype that fits.

    >>> to_array("x", torch.tensor([3, 300])).dtype
    dtype('uint16')
    """
    if tensor.dtype == torch.bfloat16 or tensor.is_complex():
        raise GraphError(f"{key} has dtype {tensor.dtype}; convert it with .float().")
    array = tensor.detach().cpu().numpy()
    if array.dtype.kind == "f":
        return array
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    return array.astype(np.min_scalar_type(high if low >= 0 else min(low, -high - 1)))


def to_flag(key: str, array: np.ndarray | None) -> bool:
    if array is None:
        return False
    if array.dtype.kind != "b" or array.size != 1:
        found = f"dtype {array.dtype} and shape {list(array.shape)}"
        raise GraphError(f"{key} has {found}; write one bool.")
    return bool(array.item())


def to_names(key: str, array: np.ndarray) -> tuple[str, ...]:
    if array.dtype.kind != "U" or array.ndim != 1:
        found = f"dtype {array.dtype} and shape {list(array.shape)}"
        raise GraphError(f"{key} has {found}; write one row of strings.")
    return tuple(array.tolist())


COUNTS = ("num_nodes", "num_edges", "edge_index", "split", "folds")
VALUES = ("x", "edge_attr", "y")
FLAGS = ("node_targets", "directed")

Result = TypeVar("Result")


def read_npz(
    path: files.FilePath, allow_no_edges: bool = False, required: Sequence[str] = ()
) -> GraphFile:
    """Read a data set in the npz layout, which `docs/formats.md` describes.

    If `directed` is not set in the file, each edge must be in one direction only, and a
    reverse edge is added directly after every edge. Integers and bools become int64;
    the dtype of floating-point numbers does not change. If the file has no `x`,
    `x` is one column of zeros. A file whose arrays need far more memory than its size
    suggests is refused before its arrays are read.
    `FileFormatError` names the file and, if possible, the key that is wrong.

    Args:
        path: The file.
        allow_no_edges: If True, a file without the keys `num_edges` and `edge_index` is
            read as graphs without edges; if False, it raises an error.
        required: Optional keys, such as `x`, that the file must have.
    """
    with files.open_bytes(path) as content:
        arrays = _load(path, content)
        size = os.fstat(content.fileno()).st_size
    try:
        for key in required:
            _check_present(key, arrays)
        file, directed = _assemble(in_usual_layout(arrays), allow_no_edges, size)
        file.check()
        if not directed:
            _check_written_once(file.store)
    except GraphError as error:
        told = str(error).rstrip(".")
        raise FileFormatError(f"{path}: {told}; see docs/formats.md#npz.") from error
    return file if directed else replace(file, store=with_reverse_edges(file.store))


def _check_written_once(store: GraphStore) -> None:
    two_way = two_way_edges(store)
    if two_way.numel():
        edge = int(two_way[0])
        graph = int(torch.searchsorted(store.num_edges.cumsum(0), edge, right=True))
        source, target = store.edge_index[:, edge].tolist()
        told = f"edge_index has both directions of the edge between nodes {source} and"
        raise GraphError(f"{told} {target} of graph {graph}; set directed=True.")


def holds_one_graph(path: files.FilePath) -> bool:
    """Return whether an npz file has one graph; `FileFormatError` if unreadable."""
    with files.open_bytes(path) as content:
        found = _try(f"{path}", lambda: np.load(content, allow_pickle=False))
        if not isinstance(found, np.lib.npyio.NpzFile) or "edge_index" not in found:
            return False
        if "num_nodes" not in found:
            return "num_edges" not in found
        return _try(f"{path}", lambda: found["num_nodes"].size == 1)


def write_npz(path: files.FilePath, file: GraphFile) -> None:
    """Write a data set in the npz layout, atomically; `read_npz` is the inverse.

    If every edge has a reverse edge with the same attributes, only one direction is
    written, and `read_npz` may return the edges in another order. Otherwise, and for
    some graphs with parallel edges, all edges are written, with `directed` set.
    Integers are written in the smallest dtype that can represent them, and read as
    int64.

    Args:
        path: The file; an existing file is replaced.
        file: The graphs and their splits.
    """
    once = without_reverse_edges(file.check().store)
    if once is None or two_way_edges(once).numel():
        write_arrays(path, file, directed=True)
    else:
        write_arrays(path, replace(file, store=once))


def write_arrays(path: files.FilePath, file: GraphFile, directed: bool = False) -> None:
    """Write an npz file; if not `directed`, `file` has one direction of each edge."""
    store = file.check().store
    arrays = {key: np.array(value) for key, value in file.names.items()}
    for key in (*COUNTS, *VALUES):
        value = getattr(file if key in ("split", "folds") else store, key)
        if value is not None:
            arrays[key] = to_array(key, value)
    flags = zip(FLAGS, (store.node_targets, directed), strict=True)
    arrays |= {key: np.array(True) for key, flag in flags if flag}
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    files.write_bytes(path, content.getvalue())


def _load(path: files.FilePath, content: IO[bytes]) -> dict[str, np.ndarray]:
    what = f"{path} is not an npz file"
    opened = _try(what, lambda: np.load(content, allow_pickle=False))
    if not isinstance(opened, np.lib.npyio.NpzFile):
        told = "contains a single array; see docs/formats.md#npz"
        raise FileFormatError(f"{path} {told}.")
    _try(f"{path}", lambda: check_entries(content))
    _try(f"{path}", lambda: files.check_size(content))
    arrays = {}
    for key in opened.files:
        known = (*COUNTS, *VALUES, *FLAGS, *ONE_GRAPH_KEYS)
        if key not in known and not key.endswith("_names"):
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}? See" if near else "see"
            told = f"{path} has an unknown key {key}"
            raise FileFormatError(f"{told}; {hint} docs/formats.md#npz.")
        what = f"{path}: {key} cannot be read"
        arrays[key] = _try(what, lambda key=key: opened[key])  # type: ignore[misc]
        if not isinstance(arrays[key], np.ndarray):
            raise FileFormatError(f"{path}: {key} is not an array.")
    return arrays


def _try(what: str, action: Callable[[], Result]) -> Result:
    try:
        return action()
    except Exception as error:  # zipfile and numpy raise many types on damaged files
        reason = " ".join(str(error).split()).rstrip(".")
        if "pickle" in reason:  # numpy's text recommends to load it nevertheless
            reason = "it has Python objects, which could run code; save arrays of "
            reason += "numbers with numpy.savez; see docs/formats.md#npz"
        raise FileFormatError(f"{what}: {reason or type(error).__name__}.") from error


def _assemble(
    arrays: dict[str, np.ndarray], allow_no_edges: bool, file_size: int
) -> tuple[GraphFile, bool]:
    """Build a `GraphFile` of the stored edges only; also return the flag `directed`."""
    no_edges = "edge_index" not in arrays and "num_edges" not in arrays
    if no_edges and allow_no_edges:
        zeros = np.zeros(arrays.get("num_nodes", np.zeros(0)).shape, np.int64)
        empty = np.zeros((2, 0), np.int64)
        arrays = {**arrays, "num_edges": zeros, "edge_index": empty}
    for key in ("num_nodes", "num_edges", "edge_index"):
        hint = " or pass allow_no_edges=True" if no_edges and "edge" in key else ""
        _check_present(key, arrays, hint)
    tensors = {
        key: to_tensor(key, arrays[key], whole=key in COUNTS)
        for key in (*COUNTS, *VALUES)
        if key in arrays
    }
    split, folds = tensors.pop("split", None), tensors.pop("folds", None)
    node_targets, directed = (to_flag(key, arrays.get(key)) for key in FLAGS)
    store = GraphStore(**tensors, node_targets=node_targets).check()
    if store.x is None:
        nodes = int(store.node_ptr[-1])
        try:
            files.check_budget(nodes * files.BYTES_PER_NUMBER, file_size)
        except GraphError as error:
            raise GraphError(f"num_nodes adds up to {nodes}, so {error}") from error
        store = replace(store, x=torch.zeros(nodes, 1, dtype=torch.long))
    named = [key for key in arrays if key.endswith("_names")]
    names = {key: to_names(key, arrays[key]) for key in named}
    return GraphFile(store, split, folds, names), directed


def _check_present(key: str, arrays: dict[str, np.ndarray], hint: str = "") -> None:
    if key not in arrays:
        raise GraphError(f"the key {key} is missing; add it{hint}.")

"""The npz layout: a data set file with a few numpy arrays, without pickles.

The file has these keys, where g, n, e and k are the numbers of graphs, nodes, edges and
cross-validation folds:

==========================  ======================================================
`num_nodes`, `num_edges`    [g], integers; each undirected edge is counted once
`edge_index`                [2, e], one direction of each undirected edge; nodes are
                            numbered from 0 in each graph
`x`                         [n, c]; if absent, one constant feature
`edge_attr`                 [e, c]; optional
`y`                         [g, ...], or [n, ...] with `node_targets`; optional
`node_targets`              true if `y` has one row per node; if absent, false
`directed`                  true if edges are directed; if absent, false
`split`                     [g]: 0 train, 1 validation, 2 test; optional
`folds`                     [k, g]: 0 train, 1 test, -1 not used; optional
`*_names`                   names of categories; optional
==========================  ======================================================
"""

import difflib
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import IO, TypeVar

import numpy as np
import torch
from torch import Tensor

from gnnak.errors import FileFormatError, GraphError
from gnnak.graphs.readers.archive_entries import check_entries
from gnnak.graphs.readers.archive_size import (
    BYTES_PER_NUMBER,
    check_budget,
    check_size,
)
from gnnak.graphs.readers.arrays import to_array, to_flag, to_names, to_tensor
from gnnak.graphs.readers.files import FilePath, open_bytes, write_bytes
from gnnak.graphs.readers.graph_file import GraphFile
from gnnak.graphs.reverse_edges import with_reverse_edges, without_reverse_edges
from gnnak.graphs.store import GraphStore

COUNTS = ("num_nodes", "num_edges", "edge_index", "split", "folds")
VALUES = ("x", "edge_attr", "y")
FLAGS = ("node_targets", "directed")

Result = TypeVar("Result")


def read_npz(
    path: FilePath, allow_no_edges: bool = False, required: Sequence[str] = ()
) -> GraphFile:
    """Read a data set in the npz layout.

    Unless the file has `directed` set, a reverse edge is added directly after every
    edge. Integers and bools become int64; the dtype of floating-point numbers does not
    change. If the file has no `x`, `x` is one column of zeros. A file whose arrays need
    far more memory than its size suggests is refused before its arrays are read.

    Args:
        path: The file.
        allow_no_edges: If True, a file without the keys `num_edges` and `edge_index` is
            read as graphs without edges; if False, it raises an error.
        required: Optional keys, such as `x`, that the file must have.

    Raises:
        FileFormatError: If the file is missing, damaged or not in the npz layout; the
            message names the file and, if possible, the key.
    """
    with open_bytes(path) as content:
        arrays = _load(path, content)
        size = os.fstat(content.fileno()).st_size
    try:
        for key in required:
            _check_present(key, arrays)
        file, directed = _assemble(arrays, allow_no_edges, size)
        file.check()
    except GraphError as error:
        raise FileFormatError(f"{path}: {error}") from error
    return file if directed else replace(file, store=with_reverse_edges(file.store))


def write_npz(path: FilePath, file: GraphFile) -> None:
    """Write a data set in the npz layout; `read_npz` is the inverse.

    If every edge has a reverse edge with the same attributes, only one direction is
    written, and `read_npz` may return the edges in another order. Otherwise all edges
    are written, with `directed` set. Integers are written in the smallest dtype that
    can represent them and read as int64. The file is written atomically.

    Args:
        path: The file; an existing file is replaced.
        file: The graphs and their splits.

    Raises:
        GraphError: If `file.check()` fails.
        FileFormatError: If the file cannot be written.
    """
    store = file.check().store
    once = without_reverse_edges(store)
    arrays = {key: np.array(value) for key, value in file.names.items()}
    for key in ("num_nodes", "num_edges", "edge_index", *VALUES):
        value = getattr(store if once is None else once, key)
        if value is not None:
            arrays[key] = to_array(key, value)
    for key in ("split", "folds"):
        value = getattr(file, key)
        if value is not None:
            arrays[key] = to_array(key, value)
    for key, flag in zip(FLAGS, (store.node_targets, once is None), strict=True):
        if flag:
            arrays[key] = np.array(True)
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    write_bytes(path, content.getvalue())


def _load(path: FilePath, content: IO[bytes]) -> dict[str, np.ndarray]:
    """Read all arrays of an npz file into a dict from names to arrays."""
    opened = _try(
        f"{path} is not an npz file", lambda: np.load(content, allow_pickle=False)
    )
    if not isinstance(opened, np.lib.npyio.NpzFile):
        raise FileFormatError(f"{path} contains a single array; give an npz file.")
    _try(f"{path}", lambda: check_entries(content))
    _try(f"{path}", lambda: check_size(content))
    arrays = {}
    for key in opened.files:
        if key not in (*COUNTS, *VALUES, *FLAGS) and not key.endswith("_names"):
            near = difflib.get_close_matches(key, (*COUNTS, *VALUES, *FLAGS), n=1)
            hint = f"did you mean {near[0]}?" if near else "see the npz layout."
            raise FileFormatError(f"{path} has an unknown key {key}; {hint}")
        what = f"{path}: {key} cannot be read"
        arrays[key] = _try(what, lambda key=key: opened[key])  # type: ignore[misc]
        if not isinstance(arrays[key], np.ndarray):
            raise FileFormatError(f"{path}: {key} is not an array.")
    return arrays


def _try(what: str, action: Callable[[], Result]) -> Result:
    """Return `action()`; turn any exception into a `FileFormatError`.

    The message of the error begins with `what`.
    """
    try:
        return action()
    except Exception as error:  # zipfile and numpy raise many types on damaged files
        reason = " ".join(str(error).split()).rstrip(".")
        if "pickle" in reason:  # numpy's text recommends to load it nevertheless
            reason = "it has Python objects, which could run code; save arrays of "
            reason += "numbers with numpy.savez"
        raise FileFormatError(f"{what}: {reason or type(error).__name__}.") from error


def _assemble(
    arrays: dict[str, np.ndarray], allow_no_edges: bool, file_size: int
) -> tuple[GraphFile, bool]:
    """Build a `GraphFile` from the arrays of an npz file; add no reverse edges.

    The second result is the flag `directed` of the file. `file_size`, in bytes, limits
    the number of nodes of a file that has no `x`.
    """
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
        store = replace(store, x=_constant(int(store.node_ptr[-1]), file_size))
    names = {
        key: to_names(key, value)
        for key, value in arrays.items()
        if key.endswith("_names")
    }
    return GraphFile(store, split, folds, names), directed


def _check_present(key: str, arrays: dict[str, np.ndarray], hint: str = "") -> None:
    """Raise `GraphError` if the file does not have the key."""
    if key not in arrays:
        raise GraphError(f"the key {key} is missing; add it{hint}.")


def _constant(num_nodes: int, file_size: int) -> Tensor:
    """Return a column of `num_nodes` zeros, the `x` of files that have no `x`.

    Raises `GraphError` if the zeros need too much memory for a file of this size.
    """
    try:
        check_budget(num_nodes * BYTES_PER_NUMBER, file_size)
    except GraphError as error:
        raise GraphError(f"num_nodes adds up to {num_nodes}, so {error}") from error
    return torch.zeros(num_nodes, 1, dtype=torch.long)

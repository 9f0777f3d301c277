"""What is slow to make is made once and kept, as a file in the npz layout."""

import io
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from gnnak.datasets.finding import cache_dir
from gnnak.errors import FileFormatError, GraphError
from gnnak.graphs import GraphFile, GraphStore, read_npz
from gnnak.graphs.readers.arrays import to_array
from gnnak.graphs.readers.files import write_bytes
from gnnak.graphs.reverse_edges import with_reverse_edges

VERSION = 1
"""Raised whenever a generator or a conversion changes what it makes."""

Progress = Callable[[int, int], None]
"""Called with what is done and how much there is."""


def silent(done: int, total: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Request:
    """What was asked for: all that shapes a data set, and where to look for it."""

    target: str | None = None
    """Which of several targets; None where there is one."""
    seed: int = 0
    """Fixes everything that is drawn."""
    data_dir: str | None = None
    """The folder the user named; None if none."""
    progress: Progress = silent
    """Called while something slow is made."""


def cached_path(name: str, *options: object) -> Path:
    """The file that keeps `name` made with these options, by this version of the code.

    >>> cached_path("pattern", "seed", 0).name
    'pattern-seed-0-v1.npz'
    """
    return cache_dir() / "-".join(map(str, (name, *options, f"v{VERSION}.npz")))


def kept(path: Path, make: Callable[[], GraphFile]) -> GraphFile:
    """Read the file if it is there; else make what it should hold and write it.

    Either way the same graphs come out, edges in the same order. If the folder cannot
    be written to, the graphs are handed out all the same and a line is logged.

    Args:
        path: A path from `cached_path`.
        make: Makes graphs with every undirected edge *once*.

    Raises:
        FileFormatError: If the file is there but damaged.
    """
    if path.is_file():
        try:
            return read_npz(path)
        except FileFormatError as error:
            told = str(error).rstrip(".")
            raise FileFormatError(
                f"{told}; delete this file of the cache and it is made again."
            ) from error
    once = _with_x(make())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_once(path, once)
    except (OSError, FileFormatError) as error:
        logging.getLogger("gnnak").warning("not kept for the next time: %s", error)
    return replace(once, store=with_reverse_edges(once.store))


def _with_x(file: GraphFile) -> GraphFile:
    """As `read_npz` does, give nodes without features one constant feature."""
    if file.store.x is not None:
        return file
    x = torch.zeros(int(file.store.num_nodes.sum()), 1, dtype=torch.long)
    return replace(file, store=replace(file.store, x=x))


def write_once(path: Path, once: GraphFile) -> None:
    """Write graphs that hold every undirected edge once in the npz layout, atomically.

    Unlike `write_npz`, which looks for the mirror of every edge, this needs no sort:
    it is for tens of millions of edges.
    """
    store = once.check().store
    arrays: dict[str, np.ndarray] = {k: np.array(v) for k, v in once.names.items()}
    for owner, keys in (
        (store, ("num_nodes", "num_edges", "edge_index", "x", "edge_attr", "y")),
        (once, ("split", "folds")),
    ):
        for key in keys:
            if getattr(owner, key) is not None:
                arrays[key] = to_array(key, getattr(owner, key))
    if store.node_targets:
        arrays["node_targets"] = np.array(True)
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    write_bytes(path, content.getvalue())


def only_once(store: GraphStore) -> GraphStore:
    """Of simple undirected graphs with both directions, each edge from low to high.

    Raises:
        GraphError: If a graph has a self loop or an edge without a mirror.
    """
    source, target = store.edge_index
    keep = source < target
    if 2 * int(keep.sum()) != keep.numel():
        raise GraphError("a graph has a self loop or an edge without a mirror.")
    graph = np.repeat(np.arange(len(store)), store.num_edges.numpy())
    counts = np.bincount(graph[keep.numpy()], minlength=len(store))
    return replace(
        store,
        num_edges=store.num_edges.new_tensor(counts.tolist()),
        edge_index=store.edge_index[:, keep],
        edge_attr=None if store.edge_attr is None else store.edge_attr[keep],
    )

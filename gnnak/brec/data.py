"""BREC: 400 pairs of non-isomorphic graphs that are hard to distinguish."""

import os

import numpy as np

from gnnak.datasets.cache import DATA_VARIABLE, find_file
from gnnak.errors import FileFormatError
from gnnak.graphs import parse_graph6
from gnnak.graphs.named import Graph

FILE_NAME = "brec.npz"
"""File with an array [pairs, 2] of graph6 strings (bytes) for each group of pairs."""

GROUPS: dict[str, tuple[str, int]] = {
    "basic": ("g6_basic", 60),
    "regular": ("g6_regular", 50),
    "strongly-regular": ("g6_str", 50),
    "extension": ("g6_extension", 100),
    "cfi": ("g6_cfi", 100),
    "4-vertex": ("g6_4vtx", 20),
    "distance-regular": ("g6_dr", 20),
}
"""Maps each group to its key in the data file and its number of pairs."""

Pair = tuple[Graph, Graph]


def load_brec(data_dir: str | os.PathLike[str] | None = None) -> dict[str, list[Pair]]:
    path = find_file(FILE_NAME, data_dir)
    if path is None:
        raise FileFormatError(
            f"there is no file {FILE_NAME}; put it into a folder and name the folder "
            f"with --data-dir or {DATA_VARIABLE}."
        )
    try:
        with np.load(path, allow_pickle=False) as arrays:
            tables = {name: arrays[key] for name, (key, _) in GROUPS.items()}
    except KeyError as error:
        raise FileFormatError(f"{path} lacks a group: {error.args[0]}.") from error
    except Exception as error:  # zipfile and numpy raise many types on damaged files
        raise FileFormatError(f"{path} is not an npz file of BREC: {error}.") from error
    return {
        name: _pairs(table, f"{path}, {GROUPS[name][0]}", GROUPS[name][1])
        for name, table in tables.items()
    }


def _pairs(table: np.ndarray, name: str, count: int) -> list[Pair]:
    """Parse an array [pairs, 2] of graph6 strings; `name` is used in error messages."""
    if table.shape != (count, 2) or table.dtype.kind != "S":
        raise FileFormatError(
            f"{name} has shape {list(table.shape)} and dtype {table.dtype}; it must be "
            f"[{count}, 2] graph6 strings as bytes."
        )
    store = parse_graph6(b"\n".join(table.flatten().tolist()), name)
    if len(store) != 2 * count:
        raise FileFormatError(f"{name} has empty strings; give one graph each.")
    ends = store.edge_index.split(store.num_edges.tolist(), dim=1)
    graphs = list(zip(ends, store.num_nodes.tolist(), strict=True))
    return list(zip(graphs[::2], graphs[1::2], strict=True))

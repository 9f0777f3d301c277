"""Find data files on disk, and cache generated and downloaded graphs there."""

import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from gnnak.errors import FileFormatError, OptionError
from gnnak.graphs import GraphFile, GraphStore, read_npz
from gnnak.graphs.readers.npz import write_arrays
from gnnak.graphs.store import with_reverse_edges

DATA_VARIABLE = "GNNAK_DATA"
CACHE_VARIABLE = "GNNAK_CACHE"


def cache_dir() -> Path:
    """Return the folder for downloaded and generated files; it may not exist yet.

    The folder is the value of the environment variable `GNNAK_CACHE` if it is set, else
    the folder `gnnak` in the user's cache folder: `XDG_CACHE_HOME` or `~/.cache`,
    `~/Library/Caches` on macOS, `LOCALAPPDATA` on Windows.
    """
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    if not shared and sys.platform == "win32":
        shared = os.environ.get("LOCALAPPDATA")
    usual = Path("Library", "Caches") if sys.platform == "darwin" else Path(".cache")
    return Path(shared or Path.home() / usual) / "gnnak"


def find_file(file_name: str, data_dir: str | os.PathLike[str] | None) -> Path | None:
    given = {"data_dir": data_dir, DATA_VARIABLE: os.environ.get(DATA_VARIABLE)}
    for option, folder in given.items():
        if folder and not Path(folder).is_dir():
            told = f"{option} is {str(folder)!r}, which is not a folder"
            raise OptionError(f"{told}; give the folder that holds the data files.")
    folders = [*(Path(folder) for folder in given.values() if folder), cache_dir()]
    return next((f / file_name for f in folders if (f / file_name).is_file()), None)


VERSION = 2
"""Part of the names of cache files; increase it when generated graphs change."""

Progress = Callable[[int, int], None]
"""Progress callback, called as `progress(done, total)`."""


def no_progress(done: int, total: int) -> None:
    """Do nothing: the default progress callback."""


@dataclass(frozen=True)
class Request:
    """Options that the user gives when loading a data set."""

    target: str | None = None
    """Name of the target to predict, or several, separated by commas; if None, the
    default target."""
    seed: int = 0
    """Seed of generated graphs and random folds."""
    data_dir: str | None = None
    """Folder that is searched for data files before `GNNAK_DATA` and the cache."""
    progress: Progress = no_progress
    """Called as `progress(done, total)` while graphs or edges are computed."""


def cached_path(name: str, *options: object) -> Path:
    return cache_dir() / "-".join(map(str, (name, *options, f"v{VERSION}.npz")))


def load_cached(path: Path, make: Callable[[], GraphFile]) -> GraphFile:
    """Read graphs from a cache file; if there is none, call `make` and write one."""
    if path.is_file():
        try:
            return read_npz(path)
        except FileFormatError as error:
            told = f"{str(error).rstrip('.')}; delete this cache file"
            raise FileFormatError(f"{told}, and it will be recreated.") from error
    once = make()
    once = replace(once, store=with_node_features(once.store))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(path, once)
    except (OSError, FileFormatError) as error:
        logging.getLogger("gnnak").warning("graphs were not cached: %s", error)
    return replace(once, store=with_reverse_edges(once.store))


def with_node_features(store: GraphStore) -> GraphStore:
    """Add a constant node feature, zeros [n, 1], to graphs without node features."""
    if store.x is not None:
        return store
    x = torch.zeros(int(store.num_nodes.sum()), 1, dtype=torch.long)
    return replace(store, x=x)

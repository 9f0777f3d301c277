"""Load data sets by name."""

import os
from dataclasses import replace

from gnnak.datasets.cache import Request
from gnnak.datasets.catalogue import DATASETS
from gnnak.datasets.entry import Entry
from gnnak.datasets.record import Dataset
from gnnak.errors import OptionError
from gnnak.typing import check_count, check_known


def load_dataset(
    name: str,
    *,
    target: str | None = None,
    seed: int = 0,
    data_dir: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Load a data set by name.

    The data file is searched in `data_dir`, then in the folder given by the environment
    variable `GNNAK_DATA`, then in the cache folder (`GNNAK_CACHE`, or the user's cache
    folder). If no folder has the file, the graphs are generated or downloaded, and
    cached on disk if generating them is slow.

    Args:
        name: One of `dataset_names()`.
        target: Name of the target to predict, for data sets with several targets; None
            takes the first one.
        seed: Seed of generated graphs and random folds.
        data_dir: Folder that is searched first for the data file, or None.

    Raises:
        OptionError: If the data set or the target does not exist.
        FileFormatError: If the file is damaged, or is missing and cannot be generated
            or downloaded.
        MissingPackageError: If a download needs a package that is not installed.

    >>> load_dataset("csl").info.num_outputs
    10
    """
    check_count("seed", seed)
    folder = None if data_dir is None else os.fspath(data_dir)
    entry, request = find_entry(name), Request(target, seed, folder)
    return load_entry(entry, request)


def load_entry(entry: Entry, request: Request) -> Dataset:
    """Load a data set, given its registry entry and the user's options.

    If `request.target` is None, the first target of the entry is used.

    Raises:
        OptionError: If the target does not exist.
    """
    if not entry.targets and request.target is not None:
        raise OptionError(
            f"{entry.name} has one target only, got {request.target!r}; leave it out."
        )
    if entry.targets:
        target = request.target or entry.targets[0]
        check_known(f"target of {entry.name}", target, entry.targets)
        request = replace(request, target=target)
    return entry.load(entry.info, request)


def dataset_names() -> tuple[str, ...]:
    """Return the names of all data sets.

    >>> dataset_names()[:3]
    ('exp', 'exp-like', 'sr25')
    """
    return tuple(DATASETS)


def find_entry(name: str) -> Entry:
    """Return the registry entry of a data set; the name may be in any case.

    Raises:
        OptionError: If the name is unknown; the message suggests the closest name.

    >>> find_entry("ZINC").name
    'zinc'
    """
    if name.lower() in DATASETS:
        return DATASETS[name.lower()]
    check_known("data set", name, DATASETS)
    return DATASETS[name]

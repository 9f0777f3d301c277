"""Data sets by name."""

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

    Files are looked for in `data_dir`, in the folder that the variable `GNNAK_DATA`
    names, and in the cache (`GNNAK_CACHE`, or the cache folder of the user). What has
    no file there is built or downloaded, and kept in the cache if that takes long.

    Args:
        name: One of `dataset_names()`.
        target: What is asked, for data sets with several targets; the first if None.
        seed: Fixes what is generated, and folds that are drawn.
        data_dir: A folder with data files.

    Raises:
        OptionError: If there is no such data set or target.
        FileFormatError: If a file is damaged, or neither at hand nor to be had.
        MissingPackageError: If a download needs a package that is not installed.

    >>> load_dataset("csl").info.num_outputs
    10
    """
    check_count("seed", seed)
    folder = None if data_dir is None else os.fspath(data_dir)
    entry, request = find_entry(name), Request(target, seed, folder)
    return load_entry(entry, request)


def load_entry(entry: Entry, request: Request) -> Dataset:
    """Load what `request` asks for; its target may be None for the default."""
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
    """The names of all data sets.

    >>> dataset_names()[:3]
    ('exp', 'exp-like', 'sr25')
    """
    return tuple(DATASETS)


def find_entry(name: str) -> Entry:
    """The data set of this name.

    Raises:
        OptionError: If there is none; the sentence names the nearest.
    """
    check_known("data set", name, DATASETS)
    return DATASETS[name]

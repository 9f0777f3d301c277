"""From a file, a generator or a download to a `Dataset`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from gnnak.datasets.cache import Request, cached_path, kept
from gnnak.datasets.download import download
from gnnak.datasets.finding import find_file
from gnnak.datasets.record import Dataset, DatasetInfo
from gnnak.errors import FileFormatError
from gnnak.graphs import GraphFile, read_npz
from gnnak.nn.features import Categorical, Features, describe


def read_or_make(
    file_name: str,
    request: Request,
    make: Callable[[], GraphFile] | None = None,
    seeded: bool = False,
) -> tuple[GraphFile, str]:
    """Read a file from where it is found, else make it and keep it in the cache.

    Args:
        file_name: Name of the file in the npz layout.
        request: What was asked for.
        make: Makes the graphs, every edge once; None if they can only be read.
        seeded: Whether the seed shapes what is made; a file stands for seed 0 alone.

    Returns:
        The graphs with both directions of every edge, and where they are from.

    Raises:
        FileFormatError: If there is no file and no way to make it, or it is damaged.
    """
    path = find_file(file_name, request.data_dir)
    if path is not None and not (seeded and request.seed):
        return read_npz(path), path.name
    if make is None:
        raise FileFormatError(
            f"{file_name} is not at hand and cannot be downloaded; put it into the "
            "folder that --data-dir or GNNAK_DATA names."
        )
    stem = Path(file_name).stem
    if seeded:
        file = kept(cached_path(stem, "seed", request.seed), make)
        return file, f"generated (seed {request.seed})"
    return kept(cached_path(stem), make), "downloaded"


def read_or_download(
    file_name: str, request: Request, fetch: Callable[[Path], GraphFile]
) -> tuple[GraphFile, str]:
    """Read a file from where it is found, else download it and keep it.

    Args:
        file_name: Name of the file in the npz layout.
        request: What was asked for.
        fetch: Downloads into a folder and reads what it got.
    """
    return read_or_make(file_name, request, lambda: download(file_name, fetch))


def build(
    info: DatasetInfo,
    file: GraphFile,
    source: str,
    node_features: Features | None = None,
    edge_features: Features | None = None,
) -> Dataset:
    """Put a data set together and check it.

    Args:
        info: What is asked; features and source are filled in here.
        file: The graphs and their splits; targets get the type that the task needs.
        source: Where they are from.
        node_features: Kind of node features; read off the graphs if not given.
        edge_features: Kind of edge features; read off the graphs if not given.

    Raises:
        FileFormatError: If targets or features are not those of the data set.
    """
    store, y = file.store, file.store.y
    if y is None:
        raise FileFormatError(
            f"{source} has no targets y; give a file of the {info.name} data set."
        )
    whole = info.task == "classification"
    _check_numbers(source, y, whole, info)
    y = y.to(torch.long if whole else torch.float)
    if info.task == "multilabel" and y.dim() == 1:
        y = y[:, None]
    found = describe(store.x)
    assert found is not None
    full = replace(
        info,
        node_features=node_features or found,
        edge_features=edge_features or describe(store.edge_attr),
        source=source,
    )
    _check_fits(source, "x", found, full.node_features, info.name)
    edges = describe(store.edge_attr)
    _check_fits(source, "edge_attr", edges, full.edge_features, info.name)
    return Dataset(full, replace(store, y=y), file.split, file.folds).check()


def _check_numbers(source: str, y: Tensor, whole: bool, info: DatasetInfo) -> None:
    """Classes are whole numbers; numbers are finite; yes-or-no answers may lack."""
    if info.task == "multilabel" or not y.is_floating_point():
        return
    if not y.isfinite().all() or (whole and (y != y.round()).any()):
        wanted = "whole" if whole else "finite"
        raise FileFormatError(
            f"{source}: y has entries that are not {wanted} numbers; give a file of "
            f"the {info.name} data set."
        )


def _check_fits(
    source: str, key: str, found: Features | None, wanted: Features | None, name: str
) -> None:
    """What is there is what the data set has; of categories, not all need occur."""
    fits = found == wanted
    if isinstance(found, Categorical) and isinstance(wanted, Categorical):
        columns = len(found.sizes) == len(wanted.sizes)
        pairs = zip(found.sizes, wanted.sizes, strict=False)
        fits = columns and all(size <= limit for size, limit in pairs)
    if not fits:
        raise FileFormatError(
            f"{source}: {key} is {found}, but {name} has {wanted}; give a file of the "
            f"{name} data set."
        )

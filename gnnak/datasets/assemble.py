"""Build a `Dataset` from a data file, from generated or from downloaded graphs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from gnnak.datasets.cache import Request, cache_dir, cached_path, find_file, load_cached
from gnnak.datasets.record import Dataset, DatasetInfo
from gnnak.errors import FileFormatError, GnnakError, GraphError
from gnnak.graphs import GraphFile, read_npz
from gnnak.graphs.store import without_reverse_edges
from gnnak.nn.features import Categorical, Features, describe


def download(file_name: str, fetch: Callable[[Path], GraphFile]) -> GraphFile:
    """Download graphs with `fetch(folder)` and keep one direction of each edge."""
    folder = cache_dir() / "downloads"
    try:
        file = fetch(folder)
    except FileFormatError as error:
        reason = str(error).rstrip(".")
        raise FileFormatError(
            f"{reason}; alternatively put {file_name} into the folder that --data-dir "
            "or GNNAK_DATA names."
        ) from error
    except GnnakError:
        raise
    except Exception as error:  # sockets and zip files raise many types
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise FileFormatError(
            f"{file_name} was not found and could not be downloaded ({reason}); put "
            "it into the folder that --data-dir or GNNAK_DATA names."
        ) from error
    once = without_reverse_edges(file.store)
    if once is None:
        raise GraphError(f"the graphs downloaded for {file_name} are not undirected.")
    return replace(file, store=once)


MAX_CATEGORIES = 100_000
"""Largest number of categories of a feature; each category has a learned embedding."""


def read_or_make(
    file_name: str,
    request: Request,
    make: Callable[[], GraphFile] | None = None,
    seeded: bool = False,
    required: Sequence[str] = (),
) -> tuple[GraphFile, str]:
    """Read a data file if it exists, else create the graphs and cache them on disk.

    `make` creates graphs with one direction of each edge. If `seeded`, the file is used
    only for seed 0. Returns the graphs and their source.
    """
    path = find_file(file_name, request.data_dir)
    if path is not None and not (seeded and request.seed):
        return read_npz(path, required=required), path.name
    if make is None:
        raise FileFormatError(
            f"{file_name} was not found and cannot be downloaded; put it into the "
            "folder that --data-dir or GNNAK_DATA names."
        )
    stem = Path(file_name).stem
    if seeded:
        file = load_cached(cached_path(stem, "seed", request.seed), make)
        return file, f"generated (seed {request.seed})"
    return load_cached(cached_path(stem), make), "downloaded"


def read_or_download(
    file_name: str,
    request: Request,
    fetch: Callable[[Path], GraphFile],
    required: Sequence[str] = ("x",),
) -> tuple[GraphFile, str]:
    """Like `read_or_make`, for graphs that `fetch(folder)` downloads."""
    make = partial(download, file_name, fetch)
    return read_or_make(file_name, request, make, required=required)


def build(
    info: DatasetInfo,
    file: GraphFile,
    source: str,
    node_features: Features | None = None,
    edge_features: Features | None = None,
) -> Dataset:
    store, y = file.store, file.store.y
    if y is None:
        raise FileFormatError(
            f"{source} has no targets y; give a file of the {info.name} data set."
        )
    if info.one_graph and (len(store) != 1 or not store.node_targets):
        raise FileFormatError(
            f"{source} is not one graph with a target for every node; give a file of "
            f"the {info.name} data set."
        )
    whole = info.task == "classification"
    _check_numbers(source, y, whole, info)
    y = y.to(torch.long if whole else torch.float)
    if info.task == "multilabel" and y.dim() == 1:
        y = y[:, None]
    check_features(source, "x", store.x, info)
    check_features(source, "edge_attr", store.edge_attr, info)
    nodes, edges = describe(store.x), describe(store.edge_attr)
    assert nodes is not None
    info = replace(
        info,
        node_features=node_features or nodes,
        edge_features=edge_features or edges,
        source=source,
    )
    _check_fits(source, "x", nodes, info.node_features, info.name)
    _check_fits(source, "edge_attr", edges, info.edge_features, info.name)
    return Dataset(info, replace(store, y=y), file.split, file.folds).check()


def _check_numbers(source: str, y: Tensor, whole: bool, info: DatasetInfo) -> None:
    """Raise `FileFormatError` if `y` has NaN or infinity or, if `whole`, fractions."""
    # Multilabel targets are NaN where the label is unknown.
    if info.task == "multilabel" or not y.is_floating_point():
        return
    if not y.isfinite().all() or (whole and (y != y.round()).any()):
        wanted = "whole" if whole else "finite"
        raise FileFormatError(
            f"{source}: y has entries that are not {wanted} numbers; give a file of "
            f"the {info.name} data set."
        )


def check_features(
    source: str, key: str, values: Tensor | None, info: DatasetInfo
) -> None:
    """Raise `FileFormatError` if values are not finite, or categories out of range."""
    if values is None or not values.numel():
        return
    wrong = None
    if values.is_floating_point():
        if not values.isfinite().all():
            wrong = "has entries that are not finite numbers"
    else:
        low, high = (int(end) for end in values.aminmax())
        if low < 0 or high >= MAX_CATEGORIES:
            value = low if low < 0 else high
            wrong = f"has the category {value}, not one of 0 to {MAX_CATEGORIES - 1}"
    if wrong:
        raise FileFormatError(
            f"{source}: {key} {wrong}; give a file of the {info.name} data set."
        )


def _check_fits(
    source: str, key: str, found: Features | None, wanted: Features | None, name: str
) -> None:
    """Raise `FileFormatError` if features differ; `found` may have fewer categories."""
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

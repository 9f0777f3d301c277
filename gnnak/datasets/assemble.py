"""Build a `Dataset` from graphs that are read from a file, generated or downloaded."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from gnnak.datasets.cache import Request, cache_dir, cached_path, find_file, load_cached
from gnnak.datasets.record import Dataset, DatasetInfo
from gnnak.errors import FileFormatError, GnnakError, GraphError, reason_of
from gnnak.graphs import GraphFile, read_npz
from gnnak.graphs.store import without_reverse_edges
from gnnak.nn.features import Categorical, Features, describe

DATA_FOLDER = "the folder that --data-dir or GNNAK_DATA names"


def download(file_name: str, fetch: Callable[[Path], GraphFile]) -> GraphFile:
    """Download graphs with `fetch(folder)` and keep one direction of each edge."""
    folder = cache_dir() / "downloads"
    try:
        file = fetch(folder)
    except FileFormatError as error:
        reason = str(error).rstrip(".")
        put = f"alternatively put {file_name} into {DATA_FOLDER}"
        raise FileFormatError(f"{reason}; {put}.") from error
    except GnnakError:
        raise
    except Exception as error:  # sockets and zip files raise many types
        told = f"{file_name} was not found and could not be downloaded"
        told = f"{told} ({reason_of(error)})"
        raise FileFormatError(f"{told}; put it into {DATA_FOLDER}.") from error
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
    """Read graphs from a file, or `make` and cache them; also return the source."""
    path = find_file(file_name, request.data_dir)
    if path is not None and not (seeded and request.seed):
        return read_npz(path, required=required), path.name
    if make is None:
        told = f"{file_name} was not found and cannot be downloaded"
        raise FileFormatError(f"{told}; put it into {DATA_FOLDER}.")
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
    """Read a data file if it exists, else download graphs with `fetch(folder)`."""
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
    whole = info.task == "classification"
    if y is None:
        raise _other_file(f"{source} has no targets y", info.name)
    if info.one_graph and (len(store) != 1 or not store.node_targets):
        told = f"{source} is not one graph with a target for every node"
        raise _other_file(told, info.name)
    # Multilabel targets are NaN where the label is unknown.
    checked = info.task != "multilabel" and y.is_floating_point()
    if checked and (not y.isfinite().all() or (whole and (y != y.round()).any())):
        kind = "whole" if whole else "finite"
        told = f"{source}: y has entries that are not {kind} numbers"
        raise _other_file(told, info.name)
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


def _other_file(told: str, name: str) -> FileFormatError:
    return FileFormatError(f"{told}; give a file of the {name} data set.")


def check_features(
    source: str, key: str, values: Tensor | None, info: DatasetInfo
) -> None:
    if values is None or not values.numel():
        return
    low, high = values.aminmax()
    wrong = None
    if values.is_floating_point() and not (low.isfinite() and high.isfinite()):
        wrong = "has entries that are not finite numbers"
    elif not values.is_floating_point() and (low < 0 or high >= MAX_CATEGORIES):
        value = int(low if low < 0 else high)
        wrong = f"has the category {value}, not one of 0 to {MAX_CATEGORIES - 1}"
    if wrong:
        raise _other_file(f"{source}: {key} {wrong}", info.name)


def _check_fits(
    source: str, key: str, found: Features | None, wanted: Features | None, name: str
) -> None:
    """Raise `FileFormatError` unless `found` is `wanted` or has fewer categories."""
    fits = found == wanted
    if isinstance(found, Categorical) and isinstance(wanted, Categorical):
        columns = len(found.sizes) == len(wanted.sizes)
        pairs = zip(found.sizes, wanted.sizes, strict=False)
        fits = columns and all(size <= limit for size, limit in pairs)
    if not fits:
        told = f"{source}: {key} is {found}, but {name} has {wanted}"
        raise _other_file(told, name)

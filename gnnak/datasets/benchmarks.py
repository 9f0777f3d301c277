"""Loaders of the real-world data sets, which read a data file or download the data."""

import hashlib
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from gnnak.datasets.assemble import build, read_or_download
from gnnak.datasets.cache import Request, cached_path, load_cached, one_direction
from gnnak.datasets.download import download
from gnnak.datasets.finding import find_file
from gnnak.datasets.folds import stratified_folds
from gnnak.datasets.record import Dataset, DatasetInfo
from gnnak.datasets.sources.cifar10 import fetch_cifar10
from gnnak.datasets.sources.ogb import fetch_ogb
from gnnak.datasets.sources.tu import fetch_tu
from gnnak.datasets.sources.zinc import fetch_zinc
from gnnak.datasets.superpixels import CHUNK, superpixel_edges
from gnnak.errors import FileFormatError
from gnnak.graphs import GraphFile, GraphStore, read_npz
from gnnak.graphs.ragged import counts_of
from gnnak.graphs.readers.smiles import ATOM_FEATURES, BOND_FEATURES
from gnnak.nn.features import Categorical, OneHot

ATOM_TYPES, BOND_TYPES = 28, 4
"""Number of atom types and of bond types in ZINC; bond type 0 does not occur."""
NO_LABELS = ("imdb-b", "reddit-b")
"""Data sets of the TU collection whose nodes have no labels."""
MAX_PIXEL = 255.0
"""Largest colour or coordinate in the superpixel file; `load_cifar10` divides the
features by this number."""


def load_zinc(info: DatasetInfo, request: Request) -> Dataset:
    """Load ZINC-12K: atom types, bond types, and penalised logP as target."""
    file, source = read_or_download("zinc12k.npz", request, fetch_zinc)
    atoms, bonds = Categorical((ATOM_TYPES,)), Categorical((BOND_TYPES,))
    return build(info, file, source, atoms, bonds)


def load_ogb(info: DatasetInfo, request: Request) -> Dataset:
    """Load MolHIV or MolPCBA of the Open Graph Benchmark (OGB), with OGB's features."""
    fetch = partial(fetch_ogb, info.name)
    file, source = read_or_download(f"{info.name}.npz", request, fetch)
    atoms = Categorical(tuple(size for _, size, _ in ATOM_FEATURES))
    bonds = Categorical(tuple(size for _, size, _ in BOND_FEATURES))
    return build(info, file, source, atoms, bonds)


def load_tu(info: DatasetInfo, request: Request) -> Dataset:
    """Load a data set of the TU collection with the ten folds of the GIN paper.

    Every node has a tag: its degree in IMDB-B, and the node label in the other data
    sets. As in the published reader of these folds, the tags that occur in the data set
    are numbered from 0 and encoded like one-hot vectors. All nodes of REDDIT-B have the
    same embedding: one published reader does this, another takes degrees, with which
    GIN-AK+ was worse on both folds that were tried. Downloaded data do not include the
    folds of the GIN paper, so ten random stratified folds are used for them.
    """
    name = info.name
    fetch = partial(fetch_tu, name)
    required = () if name in NO_LABELS else ("x",)
    file, source = read_or_download(f"tu-{name}.npz", request, fetch, required)
    if file.folds is None and file.store.y is not None:
        folds = stratified_folds(file.store.y.long(), 10, request.seed)
        file = replace(file, folds=folds)
        source = f"{source}, folds drawn (seed {request.seed})"
    if name == "imdb-b":
        file = replace(file, store=replace(file.store, x=degrees(file.store)))
    dataset = build(info, file, source)
    return dataset if name == "reddit-b" else _with_one_hot_tags(dataset)


def degrees(store: GraphStore) -> Tensor:
    """Return the in-degree of every node of all graphs, [n, 1], int64."""
    batch = store.union()
    return counts_of(batch.edge_index[1], batch.num_nodes)[:, None]


def _with_one_hot_tags(dataset: Dataset) -> Dataset:
    """Number the values of `x` that occur from 0, and describe them as one-hot."""
    assert dataset.store.x is not None
    tags, x = dataset.store.x.unique(return_inverse=True)
    features = OneHot((tags.numel(),) * x.size(1))
    info = replace(dataset.info, node_features=features)
    return replace(dataset, info=info, store=replace(dataset.store, x=x))


def load_cifar10(info: DatasetInfo, request: Request) -> Dataset:
    """Load CIFAR10 as graphs of superpixels, each joined to superpixels near it.

    Downloaded graphs have the published edges. If the graphs have no edges, these are
    computed from the positions in `x` and cached on disk.
    """
    file_name = "cifar10-superpixels.npz"
    path = find_file(file_name, request.data_dir)
    if path is None:
        pixels = load_cached(
            cached_path("cifar10-superpixels"),
            lambda: download(file_name, fetch_cifar10),
        )
    else:
        pixels = read_npz(path, allow_no_edges=True, required=("x",))
        _check_pixels(path.name, pixels.store)
    file = pixels
    if not pixels.store.num_edges.any():
        key = cached_path("cifar10-edges", _digest(pixels.store))
        file = load_cached(key, lambda: _with_edges(pixels, request))
    assert file.store.x is not None
    x = file.store.x.float() / MAX_PIXEL
    file = replace(file, store=replace(file.store, x=x))
    return build(info, file, "downloaded" if path is None else path.name)


def _check_pixels(source: str, store: GraphStore) -> None:
    """Raise `FileFormatError` unless `x` has five columns of numbers from 0 to 255."""
    x = store.x
    if x is None or x.size(1) != 5 or not ((x >= 0) & (x <= MAX_PIXEL)).all():
        raise FileFormatError(
            f"{source}: x must have five columns of numbers from 0 to 255; give a file "
            "of the cifar10 data set."
        )


def _with_edges(pixels: GraphFile, request: Request) -> GraphFile:
    """Add edges to the superpixel graphs, each undirected edge stored once.

    The features `x` remain integers from 0 to 255.
    """
    parts, step = [], 16 * CHUNK
    total = len(pixels.store)
    for first in range(0, total, step):
        chosen = pixels.store.subset(slice(first, min(first + step, total)))
        joined = superpixel_edges(chosen)
        parts.append(one_direction(replace(joined, x=chosen.x)))
        request.progress(min(first + step, total), total)
    return replace(pixels, store=GraphStore.concatenate(parts))


def _digest(store: GraphStore) -> str:
    """Return a hash of the superpixels, for the name of the cache file."""
    assert store.x is not None
    content = hashlib.sha256(store.num_nodes.numpy().tobytes())
    content.update(store.x.to(torch.uint8).numpy().tobytes())
    return content.hexdigest()[:16]

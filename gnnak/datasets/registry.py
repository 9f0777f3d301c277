"""All data sets by name, with the statistics that the paper gives."""

import os
from dataclasses import replace
from functools import partial

from gnnak.datasets import benchmarks, loaders, pairs, qm9
from gnnak.datasets.cache import Request
from gnnak.datasets.counting import SUBSTRUCTURES
from gnnak.datasets.mixture import PROPERTIES
from gnnak.datasets.record import Dataset, DatasetInfo, Entry, Protocol, Published, Task
from gnnak.errors import OptionError
from gnnak.nn.features import Categorical
from gnnak.typing import check_count, check_known

HELD_OUT_FIRST: tuple[Protocol, ...] = ("held-out", "published")
PUBLISHED_FIRST: tuple[Protocol, ...] = ("published", "held-out")


def _info(
    name: str,
    title: str,
    num_outputs: int = 1,
    protocols: tuple[Protocol, ...] = ("split",),
    task: Task = "classification",
    metric: str = "accuracy",
) -> DatasetInfo:
    return DatasetInfo(
        name, title, task, metric, num_outputs, Categorical((1,)), None, "", protocols
    )


def _tu(name: str, title: str, text: str, sizes: str, note: str = "") -> Entry:
    info = replace(_info(name, title, 2, PUBLISHED_FIRST), published_in_folds=True)
    graphs, nodes, edges = sizes.split()
    published = Published(graphs, nodes, edges, once=True, note=note)
    file = f"tu-{name}.npz"
    return Entry(info, text, file, "download", benchmarks.load_tu, published)


def _nodes(name: str, title: str, text: str, classes: int) -> Entry:
    metric = "roc-auc" if classes == 2 else "accuracy"
    info = _info(name, title, classes, metric=metric)
    info = replace(info, node_task=True, one_graph=True)
    return Entry(info, text, f"node-{name}.npz", "download", benchmarks.load_nodes)


_ENTRIES = (
    Entry(
        _info("exp", "EXP", 2, HELD_OUT_FIRST),
        "pairs of graphs that 1-WL cannot distinguish, of opposite class",
        "exp.npz",
        "file only",
        loaders.load_exp,
        Published("1200", "44.4", "110.2"),
    ),
    Entry(
        _info("exp-like", "EXP-like", 2, HELD_OUT_FIRST),
        "generated pairs like EXP: one long cycle or two short ones in a graph",
        None,
        "generated",
        partial(loaders.load_generated, pairs.exp_like_graphs),
    ),
    Entry(
        replace(_info("sr25", "SR25", 15, PUBLISHED_FIRST), batch_statistics=True),
        "15 strongly regular graphs that 3-WL cannot distinguish, each a class",
        "sr25.g6",
        "built",
        loaders.load_sr25,
        Published("15", "25", "300"),
    ),
    Entry(
        _info("csl", "CSL", 10, ("held-out",)),
        "circular skip links: ten 4-regular graphs with permuted nodes",
        None,
        "built",
        partial(loaders.load_generated, pairs.csl_graphs),
    ),
    Entry(
        _info("cfi", "CFI", 2, ("held-out",)),
        "Cai-Fürer-Immerman pairs: original or twisted graph",
        None,
        "built",
        partial(loaders.load_generated, pairs.cfi_graphs),
    ),
    Entry(
        _info("counting", "CountingSub.", task="regression", metric="mae"),
        "counts of a small substructure in random graphs",
        "counting.npz",
        "generated",
        loaders.load_counting,
        Published("1500 / 1000 / 2500", "18.8", "62.6"),
        SUBSTRUCTURES,
    ),
    Entry(
        _info("properties", "GraphProp.", task="regression", metric="log10-mse"),
        "a property of random graphs from ten models",
        "properties.npz",
        "generated",
        loaders.load_properties,
        Published("5120 / 640 / 1280", "19.5", "101.1", False, ("nodes", "edges")),
        PROPERTIES,
    ),
    Entry(
        replace(_info("pattern", "PATTERN", 2, metric="class-recall"), node_task=True),
        "which nodes belong to a dense pattern among communities",
        "pattern.npz",
        "generated",
        loaders.load_pattern,
        Published("10000 / 2000 / 2000", "118.9", "6079.8"),
    ),
    Entry(
        _info("zinc", "ZINC-12K", task="regression", metric="mae"),
        "molecules and their penalised logP",
        "zinc12k.npz",
        "download",
        benchmarks.load_zinc,
        Published("10000 / 1000 / 1000", "23.1", "49.8"),
    ),
    Entry(
        _info("qm9", "QM9", task="regression", metric="mae"),
        "small molecules and a property computed by density functional theory",
        "qm9.npz",
        "package",
        qm9.load_qm9,
        targets=tuple(qm9.TARGETS),
        joint_targets=True,
    ),
    Entry(
        _info("cifar10", "CIFAR10", 10),
        "images as graphs of superpixels",
        "cifar10-superpixels.npz",
        "download",
        benchmarks.load_cifar10,
        Published("45000 / 5000 / 10000", "117.6", "1129.8"),
    ),
    Entry(
        _info("molhiv", "MolHIV", task="multilabel", metric="roc-auc"),
        "molecules that inhibit HIV, split by scaffold",
        "molhiv.npz",
        "download",
        benchmarks.load_ogb,
        Published("32901 / 4113 / 4113", "25.5", "54.1", over_training=("edges",)),
    ),
    Entry(
        _info("molpcba", "MolPCBA", 128, ("split",), "multilabel", "average-precision"),
        "molecules and 128 assays, split by scaffold",
        "molpcba.npz",
        "download",
        benchmarks.load_ogb,
        Published("350343 / 43793 / 43793", "25.6", "55.4"),
    ),
    _tu("mutag", "MUTAG", "mutagenic compounds", "188 17.93 19.79"),
    _tu(
        *("ptc", "PTC-MR", "carcinogenic compounds", "344 14.29 14.69"),
        "the paper describes PTC-MR; the GIN paper's folds are of another PTC",
    ),
    _tu("proteins", "PROTEINS", "enzymes and other proteins", "1113 39.06 72.82"),
    _tu("nci1", "NCI1", "compounds active against lung cancer", "4110 29.87 32.30"),
    _tu("imdb-b", "IMDB-B", "actors who appear together, by genre", "1000 19.77 96.53"),
    _tu(
        "reddit-b",
        "RDT-B",
        "users who reply to each other, by kind of forum",
        "2000 429.63 497.75",
        "the GIN paper's file has about 25 nodes fewer, of 859 000",
    ),
    Entry(
        _info("triangles", "4-regular", 2),
        "does a 4-regular graph have a triangle? The task of `gnnak demo`",
        None,
        "generated",
        loaders.load_triangles,
    ),
    _nodes("minesweeper", "Minesweeper", "cells of a grid: which ones are mines?", 2),
    _nodes("tolokers", "Tolokers", "workers of a crowd: which ones were banned?", 2),
    _nodes(
        "computers", "Amazon Computers", "products bought together, by category", 10
    ),
    _nodes("coauthor-physics", "Coauthor Physics", "authors of physics, by field", 5),
)

DATASETS: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
"""The registry: maps the name of every data set to its `Entry`."""


def load_dataset(
    name: str,
    *,
    target: str | None = None,
    seed: int = 0,
    data_dir: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Load a data set by name.

    The data file is searched in `data_dir`, then in the folder that the environment
    variable `GNNAK_DATA` names, then in the cache folder (see `cache_dir`). If no
    folder has the file, the graphs are generated or downloaded. Downloads, and graphs
    that take long to generate, are cached on disk.

    Args:
        name: One of `dataset_names()`.
        target: Name of the target to predict; if None, the data set's first target. For
            QM9, also several names, separated by commas.
        seed: Seed of generated graphs and random folds.
        data_dir: Folder that is searched first for the data file. If None, only the
            other folders are searched.

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
    return load_entry(find_entry(name), Request(target, seed, folder))


def load_entry(entry: Entry, request: Request) -> Dataset:
    """Load a data set, given its registry entry and the user's options.

    Args:
        entry: The entry.
        request: The options; if `request.target` is None, the first target is used.

    Raises:
        OptionError: If the target does not exist.
    """
    if not entry.targets and request.target is not None:
        told = f"{entry.name} has one target only, got {request.target!r}"
        raise OptionError(f"{told}; leave it out.")
    if entry.targets:
        given = request.target or entry.targets[0]
        names = [name.strip() for name in given.split(",")]
        if len(names) > 1 and not entry.joint_targets:
            raise OptionError(
                f"the target is {given!r}, but {entry.name} has one target "
                "per run; give one."
            )
        for name in names:
            check_known(f"target of {entry.name}", name, entry.targets)
        if len(set(names)) < len(names):
            raise OptionError(f"the target is {given!r}; name each one once.")
        request = replace(request, target=",".join(names))
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

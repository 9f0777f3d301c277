"""Download data sets through the classes of PyG and OGB."""

import importlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gnnak.datasets.finding import cache_dir
from gnnak.errors import FileFormatError, GnnakError, GraphError, MissingPackageError
from gnnak.graphs import GraphFile, GraphStore, from_pyg
from gnnak.graphs.reverse_edges import without_reverse_edges

SPLITS = ("train", "val", "test")
TU_NAMES = {
    "mutag": "MUTAG",
    "ptc": "PTC_MR",
    "proteins": "PROTEINS",
    "nci1": "NCI1",
    "imdb-b": "IMDB-BINARY",
    "reddit-b": "REDDIT-BINARY",
}
"""Maps the names of data sets in gnnak to their names in the TU collection."""


def download(file_name: str, fetch: Callable[[Path], GraphFile]) -> GraphFile:
    """Download a data set into the cache folder and return the graphs.

    Args:
        file_name: Name of the npz file that the user can provide if the download fails;
            the error message contains this name.
        fetch: Function that takes a folder, downloads the data set into it and returns
            the graphs.

    Returns:
        The graphs with each undirected edge stored once.

    Raises:
        FileFormatError: If the download fails; the message says which file to put into
            which folder instead.
        GraphError: If the downloaded graphs are not undirected.
    """
    folder = cache_dir() / "downloads"
    try:
        file = fetch(folder)
    except GnnakError:
        raise
    except Exception as error:  # sockets, zip files and pickles raise many types
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise FileFormatError(
            f"{file_name} was not found and could not be downloaded ({reason}); put "
            "it into the folder that --data-dir or GNNAK_DATA names."
        ) from error
    once = without_reverse_edges(file.store)
    if once is None:
        raise GraphError(f"the graphs downloaded for {file_name} are not undirected.")
    return replace(file, store=once)


def fetch_zinc(folder: Path) -> GraphFile:
    """Download ZINC-12K through PyG into `folder` and return its graphs."""
    from torch_geometric.datasets import ZINC

    root = str(folder / "zinc")
    return _concatenated(from_pyg(ZINC(root, subset=True, split=s)) for s in SPLITS)


def fetch_cifar10(folder: Path) -> GraphFile:
    """Download the CIFAR10 superpixels through PyG, without their edges.

    The published directed edges are dropped, because `load_cifar10` computes undirected
    edges with `superpixel_edges`. `x` is scaled to integers from 0 to 255: three
    colours, then row and column of the superpixel's centre.
    """
    from torch_geometric.datasets import GNNBenchmarkDataset

    def nodes(split: str) -> GraphStore:
        data = list(GNNBenchmarkDataset(str(folder), "CIFAR10", split=split))
        colour = torch.cat([graph.x for graph in data])
        place = torch.cat([graph.pos for graph in data])
        x = torch.cat([colour, place], dim=1).mul(255).round().clamp(0, 255).long()
        sizes = torch.tensor([graph.num_nodes for graph in data])
        y = torch.cat([graph.y.view(1).long() for graph in data])
        none = torch.zeros(2, 0, dtype=torch.long)
        return GraphStore(sizes, torch.zeros_like(sizes), none, x=x, y=y)

    return _concatenated(nodes(split) for split in SPLITS)


def fetch_tu(name: str, folder: Path) -> GraphFile:
    """Download a data set of the TU collection through PyG.

    One-hot node labels are converted to category indices, and edge labels are dropped.
    """
    from torch_geometric.datasets import TUDataset

    data = []
    for graph in TUDataset(str(folder / "tu"), TU_NAMES[name]):
        graph.x = None if graph.x is None else graph.x.argmax(dim=1, keepdim=True)
        graph.edge_attr = None
        data.append(graph)
    return GraphFile(from_pyg(data))


def fetch_ogb(name: str, folder: Path) -> GraphFile:
    """Download a molecule data set of the Open Graph Benchmark (OGB).

    This uses OGB's library-agnostic class, which returns numpy arrays, because OGB's
    PyG class stores pickles that current PyTorch refuses to load.
    """
    ogb = _import_ogb("ogb.graphproppred.dataset")
    data = ogb.GraphPropPredDataset(name=f"ogbg-{name}", root=str(folder / "ogb"))
    parts = data.get_idx_split()
    split = torch.zeros(len(data), dtype=torch.long)
    for code, part in enumerate(("train", "valid", "test")):
        split[torch.as_tensor(parts[part])] = code
    graphs = [data[index][0] for index in range(len(data))]
    store = GraphStore(
        torch.tensor([int(graph["num_nodes"]) for graph in graphs]),
        torch.tensor([graph["edge_index"].shape[1] for graph in graphs]),
        _stacked([graph["edge_index"].T for graph in graphs]).t().contiguous(),
        x=_stacked([graph["node_feat"] for graph in graphs]),
        edge_attr=_stacked([graph["edge_feat"] for graph in graphs]),
        y=torch.as_tensor(data.labels, dtype=torch.float),
    )
    return GraphFile(store, split)


def _import_ogb(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(
            "downloading this data set needs ogb, which is not installed; run "
            "pip install 'gnnak[ogb]', or name the folder with its npz file."
        ) from error


def _stacked(arrays: list[Any]) -> Tensor:
    """Concatenate arrays along the first axis into an int64 tensor."""
    return torch.cat([torch.as_tensor(array, dtype=torch.long) for array in arrays])


def _concatenated(stores: Iterable[GraphStore]) -> GraphFile:
    """Concatenate training, validation and test graphs; return them with the split."""
    parts = list(stores)
    sizes = torch.tensor([len(part) for part in parts])
    split = torch.arange(len(parts)).repeat_interleave(sizes)
    return GraphFile(GraphStore.concatenate(parts), split)

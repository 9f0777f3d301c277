"""Download the published data sets: CIFAR10, ZINC-12K, TU and OGB."""

import gzip
import io
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnnak.datasets.sources.archive import (
    fetch,
    open_member,
    opened_archive,
    read_tensors,
)
from gnnak.errors import FileFormatError
from gnnak.graphs import GraphFile, GraphStore
from gnnak.graphs.ragged import counts_of, pointers
from gnnak.graphs.store import with_reverse_edges

SPLITS = ("train", "val", "test")


def concatenated(stores: Iterable[GraphStore]) -> GraphFile:
    """Concatenate training, validation and test graphs; return them with the split."""
    parts = list(stores)
    sizes = torch.tensor([len(part) for part in parts])
    split = torch.arange(len(parts)).repeat_interleave(sizes)
    return GraphFile(GraphStore.concatenate(parts), split)


CIFAR10_URL = "https://data.pyg.org/datasets/benchmarking-gnns/CIFAR10_v2.zip"
CIFAR10_MEMBER = "CIFAR10_v2.pt"


def fetch_cifar10(folder: Path) -> GraphFile:
    """Download the CIFAR10 superpixels with their edges.

    The published edges are directed; each of them gets its reverse edge. Their features
    are left out, as in the published runs of GNN-AK. `x` is scaled to integers from 0
    to 255: three colours, then row and column of the superpixel's centre.
    """
    with (
        opened_archive(CIFAR10_URL, folder, "CIFAR10_v2.zip") as archive,
        tempfile.TemporaryFile(dir=folder) as content,
    ):
        with open_member(archive, CIFAR10_MEMBER) as member:
            shutil.copyfileobj(member, content)
        content.seek(0)
        try:
            parts = torch.load(content, map_location="cpu", weights_only=True)
        except Exception as error:  # damaged files raise many types
            raise FileFormatError(
                f"{CIFAR10_MEMBER} is damaged, or contains more than tensors; it is "
                "not read, because it could run code."
            ) from error
        try:
            return concatenated(_superpixels(part) for part in parts)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise FileFormatError(
                f"{CIFAR10_MEMBER} does not contain superpixels."
            ) from error


def _superpixels(graphs: list[dict[str, Any]]) -> GraphStore:
    """Return graphs, given colours `x` [n, 3], places `pos`, edges and `y`."""
    colour = torch.cat([graph["x"] for graph in graphs])
    place = torch.cat([graph["pos"] for graph in graphs])
    x = torch.cat([colour, place], dim=1).mul(255).round().clamp(0, 255).long()
    sizes = torch.tensor([graph["x"].size(0) for graph in graphs])
    y = torch.cat([torch.as_tensor(graph["y"]).view(1).long() for graph in graphs])
    ends = torch.cat([graph["edge_index"] for graph in graphs], dim=1)
    counts = torch.tensor([graph["edge_index"].size(1) for graph in graphs])
    directed = GraphStore(sizes, counts, ends, x, y=y).check()
    return with_reverse_edges(_merged(directed))


def _merged(store: GraphStore) -> GraphStore:
    """Merge edges between the same two nodes into one."""
    graph = torch.arange(len(store)).repeat_interleave(store.num_edges)
    total, first = int(store.node_ptr[-1]), store.node_ptr[graph]
    low, high = (store.edge_index + first).sort(dim=0).values
    pair = (low * total + high).unique()
    ends = torch.stack([pair // total, pair % total])
    graph = torch.bucketize(ends[0], store.node_ptr[1:], right=True)
    return replace(
        store,
        num_edges=counts_of(graph, len(store)),
        edge_index=ends - store.node_ptr[graph],
    )


MOLECULES = "https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1"
"""All 250 000 molecules, as pickles of tensors."""
INDEX = (
    "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/{commit}/"
    "data/molecules/{split}.index"
)
"""The positions of the 12 000 molecules; the content of a commit cannot change."""
COMMITS = {
    "train": "1068260d2d58cbe616d3d34de9a3c1fbf8332715",
    "val": "7125b402b4f386e1897549cebf76fcab32738e21",
    "test": "7125b402b4f386e1897549cebf76fcab32738e21",
}


def fetch_zinc(folder: Path) -> GraphFile:
    """Download ZINC-12K into `folder` and return its graphs."""
    positions = {split: _positions(folder, split) for split in SPLITS}
    with opened_archive(MOLECULES, folder, "molecules.zip") as archive:
        return concatenated(_part(archive, *each) for each in positions.items())


def _positions(folder: Path, split: str) -> list[str]:
    """Return the positions of the molecules of one part, as texts."""
    url = INDEX.format(commit=COMMITS[split], split=split)
    index = fetch(url, folder, f"zinc-{split}.index")
    return index.read_text().replace(",", " ").split()


def _part(archive: zipfile.ZipFile, split: str, positions: list[str]) -> GraphStore:
    """Return the graphs of one part: `train`, `val` or `test`."""
    name = f"molecules/{split}.pickle"
    with open_member(archive, name) as file:
        molecules = read_tensors(file)
    try:
        return graphs_of([molecules[int(position)] for position in positions])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(
            f"molecules.zip: {name} does not contain the molecules of ZINC."
        ) from error


def graphs_of(molecules: Sequence[dict[str, Any]]) -> GraphStore:
    """Convert molecules to graphs with atom types, bond types and targets.

    Each molecule has the pickled tensors `atom_type` [n], `bond_type` [n, n] (0 = no
    bond) and `logP_SA_cycle_normalized` [1].
    """
    atoms = [m["atom_type"].decode().long().view(-1, 1) for m in molecules]
    bonds = [m["bond_type"].decode().long() for m in molecules]
    edges = [matrix.nonzero().t() for matrix in bonds]
    targets = [m["logP_SA_cycle_normalized"].decode().float() for m in molecules]
    return GraphStore(
        torch.tensor([atom.size(0) for atom in atoms]),
        torch.tensor([ends.size(1) for ends in edges]),
        torch.cat(edges, dim=1),
        x=torch.cat(atoms),
        edge_attr=torch.cat(
            [
                matrix[ends[0], ends[1]]
                for matrix, ends in zip(bonds, edges, strict=True)
            ]
        )[:, None],
        y=torch.cat([target.view(1) for target in targets]),
    ).check()


TU_URL = "https://www.chrsmrrs.com/graphkerneldatasets/{name}.zip"
TU_NAMES = {
    "mutag": "MUTAG",
    "ptc": "PTC_MR",
    "proteins": "PROTEINS",
    "nci1": "NCI1",
    "imdb-b": "IMDB-BINARY",
    "reddit-b": "REDDIT-BINARY",
}
"""Maps the names of data sets in gnnak to their names in the TU collection."""


def fetch_tu(name: str, folder: Path) -> GraphFile:
    """Download a data set of the TU collection: graphs, node labels and classes.

    Node labels become categories from 0; edge labels, self loops and repeated edges are
    dropped.
    """
    title = TU_NAMES[name]
    url = TU_URL.format(name=title)
    with opened_archive(url, folder, f"{title}.zip") as archive:
        members = archive.namelist()

        def read(part: str) -> Tensor:
            with open_member(archive, f"{title}/{title}_{part}.txt") as file:
                return torch.from_numpy(
                    np.loadtxt(file, np.int64, delimiter=",", ndmin=2)
                )

        try:
            graph = read("graph_indicator")[:, 0] - 1
            labels = read("graph_labels")[:, 0]
            edges = read("A").t() - 1
            x = None
            if f"{title}/{title}_node_labels.txt" in members:
                x = read("node_labels")[:, :1]
            return GraphFile(_tu_store(graph, edges, x, labels))
        except (ValueError, IndexError, RuntimeError) as error:
            raise FileFormatError(
                f"{title}.zip is not a data set of the TU collection: {error}."
            ) from error


def _tu_store(
    graph: Tensor, edges: Tensor, x: Tensor | None, labels: Tensor
) -> GraphStore:
    """Return the graphs, given the graph of each node [n], edges [2, e] and labels."""
    nodes, graphs = graph.numel(), labels.numel()
    if (graph.diff() < 0).any() or not 0 <= int(graph[0]) <= int(graph[-1]) < graphs:
        raise ValueError("the nodes are not sorted by graph")
    if not 0 <= int(edges.min()) <= int(edges.max()) < nodes:
        raise ValueError(f"an edge joins a node beyond the {nodes} nodes")
    code = (edges[0] * nodes + edges[1])[edges[0] != edges[1]].unique()
    source, target = code // nodes, code % nodes
    num_nodes = counts_of(graph, graphs)
    first = pointers(num_nodes)[:-1][graph[source]]
    return GraphStore(
        num_nodes,
        counts_of(graph[source], graphs),
        torch.stack([source - first, target - first]),
        x=None if x is None else x - x.min(),
        y=labels.unique(return_inverse=True)[1],
    ).check()


OGB_URL = "https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/{name}.zip"
OGB_NAMES = {"molhiv": "hiv", "molpcba": "pcba"}
"""Maps the names of data sets in gnnak to the names of their archives."""
MAX_TEXT = 2**31
"""Largest size of a CSV file, in bytes."""
EMPTY = re.compile(rb"(?:(?<=[,\n])|^)(?=[,\r\n]|$)")
"""The place of a missing number in a CSV file."""


def fetch_ogb(name: str, folder: Path) -> GraphFile:
    """Download a molecule data set of OGB, with its scaffold split."""
    title = OGB_NAMES[name]
    url = OGB_URL.format(name=title)
    with opened_archive(url, folder, f"ogbg-{title}.zip") as archive:

        def read(part: str, kind: Any = np.int64) -> Tensor:
            with open_member(archive, f"{title}/{part}.csv.gz") as member:
                content = gzip.GzipFile(fileobj=member).read(MAX_TEXT + 1)
            if len(content) > MAX_TEXT:
                raise ValueError(f"{part} has more than {MAX_TEXT} bytes")
            return read_csv(content, kind)

        try:
            return _file(read)
        except (ValueError, IndexError, EOFError, gzip.BadGzipFile) as error:
            raise FileFormatError(
                f"{title}.zip is not a molecule data set of OGB: {error}."
            ) from error


def read_csv(content: bytes, kind: Any) -> Tensor:
    r"""Read a CSV file of numbers into a matrix; a missing number becomes NaN.

    >>> read_csv(b"1,,3\n,5,\n", np.float32)
    tensor([[1., nan, 3.],
            [nan, 5., nan]])
    """
    content = content.rstrip(b"\r\n")
    if kind is np.float32:
        content = EMPTY.sub(b"nan", content)
    lines = io.BytesIO(content)
    return torch.from_numpy(np.loadtxt(lines, kind, delimiter=",", ndmin=2))


def _file(read: Callable[..., Tensor]) -> GraphFile:
    """Build graphs with a function that reads one part of the archive.

    The archive stores each undirected edge once.
    """
    y = read("raw/graph-label", np.float32)
    store = GraphStore(
        read("raw/num-node-list")[:, 0],
        read("raw/num-edge-list")[:, 0],
        read("raw/edge").t().contiguous(),
        x=read("raw/node-feat"),
        edge_attr=read("raw/edge-feat"),
        y=y,
    ).check()
    split = torch.full((len(store),), -1)
    for code, part in enumerate(("train", "valid", "test")):
        split[read(f"split/scaffold/{part}")[:, 0]] = code
    return GraphFile(with_reverse_edges(store), split).check()

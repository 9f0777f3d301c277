"""Download the CIFAR10 superpixels."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gnnak.datasets.sources.archive import open_member, opened_archive
from gnnak.datasets.sources.splits import concatenated
from gnnak.errors import FileFormatError
from gnnak.graphs import GraphFile, GraphStore
from gnnak.graphs.ragged import counts_of
from gnnak.graphs.reverse_edges import with_reverse_edges

URL = "https://data.pyg.org/datasets/benchmarking-gnns/CIFAR10_v2.zip"
MEMBER = "CIFAR10_v2.pt"


def fetch_cifar10(folder: Path) -> GraphFile:
    """Download the CIFAR10 superpixels with their edges.

    The published edges are directed; each of them gets its reverse edge. Their features
    are left out, as in the published runs of GNN-AK. `x` is scaled
    to integers from 0 to 255: three colours, then row and column of the superpixel's
    centre.
    """
    with (
        opened_archive(URL, folder, "CIFAR10_v2.zip") as archive,
        tempfile.TemporaryFile(dir=folder) as content,
    ):
        with open_member(archive, MEMBER) as member:
            shutil.copyfileobj(member, content)
        content.seek(0)
        try:
            parts = torch.load(content, map_location="cpu", weights_only=True)
        except Exception as error:  # damaged files raise many types
            raise FileFormatError(
                f"{MEMBER} is damaged, or contains more than tensors; it is not read, "
                "because it could run code."
            ) from error
        try:
            return concatenated(_store(part) for part in parts)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise FileFormatError(f"{MEMBER} does not contain superpixels.") from error


def _store(graphs: list[dict[str, Any]]) -> GraphStore:
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

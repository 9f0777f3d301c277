"""Download the CIFAR10 superpixels."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

from gnnak.datasets.sources.archive import open_member, opened_archive
from gnnak.datasets.sources.splits import concatenated
from gnnak.errors import FileFormatError
from gnnak.graphs import GraphFile, GraphStore

URL = "https://data.pyg.org/datasets/benchmarking-gnns/CIFAR10_v2.zip"
MEMBER = "CIFAR10_v2.pt"


def fetch_cifar10(folder: Path) -> GraphFile:
    """Download the CIFAR10 superpixels, without their edges.

    The published directed edges are dropped, because `load_cifar10` computes undirected
    edges with `superpixel_edges`. `x` is scaled to integers from 0 to 255: three
    colours, then row and column of the superpixel's centre.
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
            return concatenated(_nodes(part) for part in parts)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise FileFormatError(f"{MEMBER} does not contain superpixels.") from error


def _nodes(graphs: list[dict[str, Any]]) -> GraphStore:
    """Return the nodes of graphs, given colours `x` [n, 3], places `pos` and `y`."""
    colour = torch.cat([graph["x"] for graph in graphs])
    place = torch.cat([graph["pos"] for graph in graphs])
    x = torch.cat([colour, place], dim=1).mul(255).round().clamp(0, 255).long()
    sizes = torch.tensor([graph["x"].size(0) for graph in graphs])
    y = torch.cat([torch.as_tensor(graph["y"]).view(1).long() for graph in graphs])
    none = torch.zeros(2, 0, dtype=torch.long)
    return GraphStore(sizes, torch.zeros_like(sizes), none, x=x, y=y)

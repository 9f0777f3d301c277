"""Download data sets of the TU collection, which are archives of text files."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gnnak.datasets.sources.archive import open_member, opened_archive
from gnnak.errors import FileFormatError
from gnnak.graphs import GraphFile, GraphStore
from gnnak.graphs.ragged import counts_of, pointers

URL = "https://www.chrsmrrs.com/graphkerneldatasets/{name}.zip"
NAMES = {
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

    Node labels become categories from 0; edge labels, self loops and repeated edges
    are dropped.

    Args:
        name: Name of the data set in gnnak, such as `mutag`.
        folder: The folder of downloads.
    """
    title = NAMES[name]
    url = URL.format(name=title)
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
            return GraphFile(_store(graph, edges, x, labels))
        except (ValueError, IndexError, RuntimeError) as error:
            raise FileFormatError(
                f"{title}.zip is not a data set of the TU collection: {error}."
            ) from error


def _store(
    graph: Tensor, edges: Tensor, x: Tensor | None, labels: Tensor
) -> GraphStore:
    """Return the graphs of a data set of the TU collection.

    Args:
        graph: The index of the graph that each of the n nodes is in, [n], sorted.
        edges: Directed edges of all graphs, [2, e].
        x: The label of each node, [n, 1]; None if nodes have no labels.
        labels: The label of each graph, [g].
    """
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

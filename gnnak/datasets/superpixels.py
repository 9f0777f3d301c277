"""Add edges to superpixel graphs: join each node to eight of its nearest nodes."""

import numpy as np
import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs import GraphStore
from gnnak.graphs.ragged import counts_of, pointers

NEIGHBORS = 8
CHUNK = 256
"""Number of graphs processed at a time."""


def superpixel_edges(store: GraphStore) -> GraphStore:
    r"""Join each superpixel to eight of the nine superpixels most similar in place.

    Let $d_{ij}$ be the distance between the positions of nodes $i$ and $j$, and $s_i$
    the mean of $d_{ij}$ over the eight nodes $j$ nearest to $i$. The similarity of $i$
    and $j$ is $(A_{ij} + A_{ji}) / 2$ with

    $$A_{ij} = \exp\big(-(d_{ij} / s_i)^2\big).$$

    Every node is joined to eight of its nine most similar nodes by edges in both
    directions. As in the published graphs, the one left out is the node that
    `numpy.argpartition` moves to the last position when it separates the nine largest
    similarities from the others. Of 32-bit and 64-bit numbers, this depends on the
    processor, so the similarities are replaced by their ranks as 16-bit integers.
    Graphs of up to nine nodes are complete.

    Args:
        store: Graphs without edges. `x` [n, 5] has the columns red, green, blue, row
            and column of the centre, each from 0 to 255.

    Returns:
        The same graphs with edges, which have no features, as in the published runs.
        `x` is scaled to values from 0 to 1.

    Raises:
        GraphError: If `x` is None or does not have five columns.
    """
    if store.x is None or store.x.size(1) != 5:
        raise GraphError("superpixels need x [n, 5]: red, green, blue, row, column.")
    ptr = pointers(store.num_nodes)
    position = store.x[:, 3:].double() / 255
    parts = []
    for size in store.num_nodes.unique().tolist():
        for graphs in (store.num_nodes == size).nonzero().flatten().split(CHUNK):
            nodes = ptr[graphs, None] + torch.arange(size)
            parts.append(_edges_of(graphs, position[nodes]))
    none = torch.zeros(0, dtype=torch.long)
    graph = torch.cat([part[0] for part in parts] or [none])
    edges = torch.cat([part[1] for part in parts] or [none.view(2, 0)], dim=1)
    order = graph.argsort(stable=True)
    return GraphStore(
        store.num_nodes,
        counts_of(graph, len(store)),
        edges[:, order],
        store.x.float() / 255,
        y=store.y,
    )


def _edges_of(graphs: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """Return the graph and the two nodes of each edge.

    Args:
        graphs: Indices of graphs that have equally many nodes, [g].
        position: Positions of their nodes, [g, n, 2].
    """
    size = position.size(1)
    similarity = _similarity(position)
    if size <= NEIGHBORS + 1:
        joined = ~torch.eye(size, dtype=torch.bool).expand_as(similarity)
    else:
        joined = torch.zeros_like(similarity, dtype=torch.bool)
        joined.scatter_(2, _neighbors(similarity), True)
        joined |= joined.transpose(1, 2).clone()
    row, source, target = joined.nonzero().t()
    return graphs[row], torch.stack([source, target])


def _similarity(position: Tensor) -> Tensor:
    """Return the similarity of all pairs of nodes of each graph, [g, n, n]."""
    distance = torch.cdist(
        position, position, compute_mode="donot_use_mm_for_euclid_dist"
    )
    # The nearest node of a node is the node itself, with distance 0.
    near = distance.topk(min(NEIGHBORS + 1, distance.size(2)), dim=2, largest=False)
    scale = near.values.sum(dim=2, keepdim=True) / NEIGHBORS
    similarity = torch.exp(-((distance / scale.clamp(min=1e-8)) ** 2))
    return (similarity + similarity.transpose(1, 2)) / 2


def _neighbors(similarity: Tensor) -> Tensor:
    """Return eight of the nine most similar nodes of each node, [g, n, 8]."""
    size = similarity.size(2)
    itself = torch.eye(size, dtype=torch.bool)
    order = similarity.masked_fill(itself, -1.0).argsort(dim=2, stable=True)
    place = torch.arange(size, dtype=torch.int16).expand_as(order)
    rank = torch.empty(order.shape, dtype=torch.int16).scatter_(2, order, place)
    parted = np.argpartition(rank.numpy(), size - NEIGHBORS - 2, axis=2)
    return torch.from_numpy(parted[:, :, -NEIGHBORS - 1 : -1])

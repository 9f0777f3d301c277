"""Add edges to superpixel graphs: join each node to its eight most similar nodes."""

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs import GraphStore
from gnnak.graphs.ragged import pointers

NEIGHBORS = 8
CHUNK = 256
"""Number of graphs processed at a time."""


def superpixel_edges(store: GraphStore) -> GraphStore:
    r"""Join each superpixel to the eight superpixels most similar in place and colour.

    For nodes $i$ and $j$, let $d^c_{ij}$ be the distance between their positions and
    $d^f_{ij}$ the distance between their colours. Let $s_i(d)$ be the mean of $d_{ij}$
    over the eight nodes $j$ for which $d_{ij}$ is smallest. The similarity of $i$ and
    $j$ is $(A_{ij} + A_{ji}) / 2$ with

    $$A_{ij} = \exp\big(-(d^c_{ij} / s_i(d^c))^2 - (d^f_{ij} / s_i(d^f))^2\big).$$

    Every node is joined to its eight most similar nodes by edges in both directions.

    Args:
        store: Graphs without edges. `x` [n, 5] has the columns red, green, blue, row
            and column of the centre, each from 0 to 255.

    Returns:
        The same graphs with edges. `x` is scaled to values from 0 to 1, and `edge_attr`
        holds the similarity of the two nodes of each edge.

    Raises:
        GraphError: If `x` is None or does not have five columns.
    """
    if store.x is None or store.x.size(1) != 5:
        raise GraphError("superpixels need x [n, 5]: red, green, blue, row, column.")
    x = store.x.float() / 255
    ptr = pointers(store.num_nodes)
    parts = [
        _edges_of(x, ptr[first : first + CHUNK + 1])
        for first in range(0, len(store), CHUNK)
    ]
    none = x.new_zeros(0)
    edges = torch.cat([part[0] for part in parts] or [none.long().view(2, 0)], dim=1)
    counts = torch.cat([part[1] for part in parts] or [none.long()])
    similarity = torch.cat([part[2] for part in parts] or [none])
    return GraphStore(store.num_nodes, counts, edges, x, similarity[:, None], store.y)


def _edges_of(x: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the edges of consecutive graphs.

    Args:
        x: Features of all nodes of the data set.
        ptr: Index in `x` of the first node of each of these graphs, and the index after
            the last node of the last one.

    Returns:
        The edges, the number of edges of each graph, and the similarity of the two
        nodes of each edge.
    """
    sizes = ptr.diff()
    largest = int(sizes.max()) if sizes.numel() else 0
    place = torch.arange(largest, device=x.device)
    real = place < sizes[:, None]
    padded = x[(ptr[:-1, None] + place).clamp(max=max(x.size(0) - 1, 0))]
    both = real[:, :, None] & real[:, None, :]
    both &= ~torch.eye(largest, dtype=torch.bool, device=x.device)
    similarity = torch.exp(
        -(_scaled(padded[..., 3:], both) ** 2) - _scaled(padded[..., :3], both) ** 2
    )
    similarity = (similarity + similarity.transpose(1, 2)) / 2
    ranked = similarity.masked_fill(~both, -1.0)
    best = ranked.topk(min(NEIGHBORS, largest), dim=2).indices
    joined = torch.zeros_like(both).scatter_(2, best, True) & both
    joined = joined | joined.transpose(1, 2)
    graph, source, target = joined.nonzero().t()
    counts = joined.sum(dim=(1, 2))
    return torch.stack([source, target]), counts, similarity[graph, source, target]


def _scaled(values: Tensor, both: Tensor) -> Tensor:
    """Return the distances between all nodes of each graph, scaled per node.

    The distances from a node are divided by the mean of the eight smallest of them.

    Args:
        values: Positions or colours of the nodes, padded to [graphs, nodes, features].
        both: Mask of pairs of distinct nodes that exist, [graphs, nodes, nodes].
    """
    distance = torch.cdist(values, values, compute_mode="donot_use_mm_for_euclid_dist")
    far = distance.masked_fill(~both, torch.inf)
    near = far.topk(min(NEIGHBORS, far.size(2)), dim=2, largest=False).values
    known = near.isfinite()
    total = near.masked_fill(~known, 0.0).sum(dim=2, keepdim=True)
    mean = total / known.sum(dim=2, keepdim=True).clamp(min=1)
    return distance / mean.clamp(min=1e-12)

"""Add edges to superpixel graphs, from each node to the eight most similar nodes."""

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

    For two nodes, let $d^c$ be the distance between their positions and $d^f$ the
    distance between their colours. $s(d)$ is the mean of $d$ over the eight nearest
    nodes of a node. The similarity of two nodes is the mean of $A$ and its transpose:

    $$A = \exp\big(-(d^c / s(d^c))^2 - (d^f / s(d^f))^2\big).$$

    Every node is joined to its eight most similar nodes by edges in both directions.

    Args:
        store: Graphs without edges. `x` [n, 5] has the columns red, green, blue, row
            and column of the centre, each from 0 to 255.

    Returns:
        The same graphs with edges, `x` in 0..1, and the similarity as `edge_attr`.

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
    """Compute the edges of some of the graphs, from the features `x` of all nodes.

    Returns the edges, the number of edges of each graph, and the similarity of the two
    ends of each edge.
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
    """Return the distances of all pairs of nodes of each graph, scaled per node.

    The distances of a node are divided by its mean distance to its eight nearest nodes.
    """
    distance = torch.cdist(values, values, compute_mode="donot_use_mm_for_euclid_dist")
    far = distance.masked_fill(~both, torch.inf)
    near = far.topk(min(NEIGHBORS, far.size(2)), dim=2, largest=False).values
    known = near.isfinite()
    total = near.masked_fill(~known, 0.0).sum(dim=2, keepdim=True)
    mean = total / known.sum(dim=2, keepdim=True).clamp(min=1)
    return distance / mean.clamp(min=1e-12)

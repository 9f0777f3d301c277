"""Shortest-path lengths from all nodes to the nearest of several roots."""

import torch
from torch import Tensor


def hops_to_root(
    edge_index: Tensor, roots: Tensor, num_nodes: int, max_hops: int
) -> Tensor:
    """Return the length of the shortest directed path from each node to any root.

    Runs one breadth-first search from all roots at once, following edges backwards. The
    search takes at most `max_hops` passes over the edges.

    Args:
        edge_index: Directed edges, [2, e].
        roots: The nodes where paths end, [s].
        num_nodes: Number of nodes, n.
        max_hops: Largest path length to search.

    Returns:
        Path lengths, [n]; -1 where no path of at most `max_hops` edges exists.

    >>> path = torch.tensor([[0, 1, 3], [1, 2, 2]])
    >>> hops_to_root(path, torch.tensor([2]), num_nodes=5, max_hops=3)
    tensor([ 2,  1,  0,  1, -1])
    """
    source, target = edge_index
    hop = torch.full((num_nodes,), -1, dtype=torch.long, device=edge_index.device)
    hop[roots] = 0
    for distance in range(1, max_hops + 1):
        reached = source[(hop[target] == distance - 1) & (hop[source] < 0)]
        if not reached.numel():
            break
        hop[reached] = distance
    return hop

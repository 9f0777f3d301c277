"""Breadth-first search from many roots at once, kept sparse."""

import torch
from torch import Tensor

from gnnak.graphs.adjacency import Neighbors
from gnnak.graphs.ragged import ragged_ranges


def reach(root: Tensor, neighbors: Neighbors, num_hops: int) -> tuple[Tensor, Tensor]:
    """All nodes with a path to a root of at most `num_hops` edges, and its length.

    Breadth-first from all roots at once over keys `subgraph * n + node`. Keys carry
    their hop as a last digit: after a sort, the first of equal keys is the nearest,
    and those of the newest hop are the next frontier.

    Args:
        root: Where paths end, [s].
        neighbors: The graph's incoming edges.
        num_hops: Longest path to follow.

    Returns:
        The sorted keys of all (subgraph, node) pairs within reach, and their hops.
    """
    size = max(neighbors.num_nodes, 1)
    digits = min(num_hops, neighbors.num_nodes) + 1
    key = torch.arange(root.numel(), device=root.device) * size + root
    seen, frontier = key * digits, key
    for hop in range(1, digits):
        here = frontier % size
        row, entry = ragged_ranges(*neighbors.rows(here))
        beside = neighbors.node.index_select(0, entry)
        reached = (frontier - here).index_select(0, row) + beside
        seen = torch.sort(torch.cat([seen, reached * digits + hop])).values
        key = seen // digits
        first = torch.ones_like(key, dtype=torch.bool)
        torch.ne(key[1:], key[:-1], out=first[1:])
        kept = first.nonzero().flatten()
        seen, key = seen.index_select(0, kept), key.index_select(0, kept)
        newest = (seen - key * digits == hop).nonzero().flatten()
        if not newest.numel():
            break
        frontier = key.index_select(0, newest)
    return key, seen - key * digits

"""Breadth-first search from many roots at once, kept sparse."""

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs.adjacency import Neighbors
from gnnak.graphs.ragged import ragged_ranges

LARGEST = 2**63 - 1


def reach(root: Tensor, neighbors: Neighbors, num_hops: int) -> tuple[Tensor, Tensor]:
    """All nodes with a path to a root of at most `num_hops` edges, and its length.

    Breadth-first from all roots at once over keys `subgraph * n + node`. Keys carry
    their hop as a last digit: after a sort, the first of equal keys is the nearest,
    and those of the newest hop are the next frontier. Takes a sort per hop of what is
    reached so far.

    Args:
        root: Where paths end, [s].
        neighbors: The graph's incoming edges.
        num_hops: Longest path to follow.

    Returns:
        The sorted keys of all (subgraph, node) pairs within reach, and their hops.
    """
    size = max(neighbors.num_nodes, 1)
    farthest = min(num_hops, neighbors.num_nodes)
    digits = min(farthest + 1, LARGEST // (size * size))
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
    else:
        if digits <= farthest:
            raise GraphError(
                f"a graph of {size:,} nodes is too large for {num_hops} hops; use at "
                f"most {digits - 1}."
            )
    return key, seen - key * digits

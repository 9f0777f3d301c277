"""Breadth-first search from many roots at once, storing only the nodes found."""

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs.adjacency import Neighbors
from gnnak.graphs.ragged import ragged_ranges

INT64_MAX = 2**63 - 1


def reach(root: Tensor, neighbors: Neighbors, num_hops: int) -> tuple[Tensor, Tensor]:
    """Find, for every root, the nodes at most `num_hops` hops away from the root.

    Distance means the length of the shortest directed path from a node to the root. The
    function returns pairs (i, v): node v is near root number i. A pair is encoded as
    one integer, `i * n + v`, where n is the number of nodes of the graph.

    Args:
        root: The s root nodes, [s].
        neighbors: The graph's incoming edges.
        num_hops: Largest distance to search.

    Returns:
        The m pairs (i, v) found, as sorted integers, [m]; and for each pair the
        distance from node v to root number i, [m].

    Raises:
        GraphError: If the integers used in the search would overflow int64, because the
            graph is too large for this number of hops.
    """
    size = max(neighbors.num_nodes, 1)
    farthest = min(num_hops, neighbors.num_nodes)
    radix = min(farthest + 1, INT64_MAX // (size * size))
    key = torch.arange(root.numel(), device=root.device) * size + root
    seen, frontier = key * radix, key
    for hop in range(1, radix):
        here = frontier % size
        row, entry = ragged_ranges(*neighbors.rows(here))
        neighbor = neighbors.node.index_select(0, entry)
        reached = (frontier - here).index_select(0, row) + neighbor
        # Of equal pairs keep the first, which has the smallest distance to the root.
        seen = torch.sort(torch.cat([seen, reached * radix + hop])).values
        key = seen // radix
        first = torch.ones_like(key, dtype=torch.bool)
        torch.ne(key[1:], key[:-1], out=first[1:])
        nearest = first.nonzero().flatten()
        seen, key = seen.index_select(0, nearest), key.index_select(0, nearest)
        newest = (seen - key * radix == hop).nonzero().flatten()
        if not newest.numel():
            break
        frontier = key.index_select(0, newest)
    else:
        if radix <= farthest:
            raise GraphError(
                f"a graph of {size:,} nodes is too large for {num_hops} hops; use at "
                f"most {radix - 1}."
            )
    return key, seen - key * radix

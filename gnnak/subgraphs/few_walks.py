"""List all walks that end at some roots, as long as there are few of them."""

import torch
from torch import Tensor

from gnnak.graphs.adjacency import Neighbors
from gnnak.graphs.ragged import ragged_ranges_to, range_ends

ON_CPU = 1 << 14
"""The largest number of walks that are listed on a CPU."""
ON_DEVICE = 1 << 18
"""The largest number of walks that are listed on a GPU. Up to about this size, the time
of an operation does not depend on the number of walks."""


def list_walks(
    root: Tensor,
    neighbors: Neighbors,
    num_hops: int,
    most: float,
    all_roots: bool = False,
) -> tuple[Tensor, int]:
    """List walks that end at a root, the shorter ones first, while they are few.

    A walk from node v to root number i is encoded as one integer, `(i * n + v) * radix
    + length`, where n is the number of nodes of the graph, and radix is `num_hops + 1`.
    A search that drops duplicates after every step lists fewer walks, but needs several
    times as many operations, and synchronises with the device in many of them.

    Args:
        root: The s root nodes, [s].
        neighbors: The graph's incoming edges.
        num_hops: Largest length.
        most: Largest number of walks; the s walks of length 0 are listed in any case.
        all_roots: Whether `root` is 0..n-1.

    Returns:
        All walks up to some length, and this length. It is `num_hops` unless there are
        more than `most` walks.
    """
    radix, total = num_hops + 1, root.numel()
    step, degree = max(neighbors.num_nodes, 1) * radix, neighbors.ptr.diff()
    # The integers without the term of v, and v, for each length.
    rest = [torch.arange(0, total * step, step, device=root.device)]
    begin = [root]
    for length in range(num_hops):
        # The walks of length 1 to all nodes are the edges, whose number is known.
        are_edges = all_roots and length == 0
        if are_edges:
            work = neighbors.node.numel()
        else:
            count = degree.index_select(0, begin[-1])
            end, work = range_ends(count)
        total += work
        if total > most:
            return _encoded(rest, begin, radix), length
        if not work:
            break
        if are_edges:
            rest.append((neighbors.key - neighbors.node).mul_(radix).add_(1))
            begin.append(neighbors.node)
        else:
            stop = neighbors.ptr[1:].index_select(0, begin[-1])
            row, entry = ragged_ranges_to(stop, count, end, work)
            rest.append(rest[-1].index_select(0, row).add_(1))
            begin.append(neighbors.node.index_select(0, entry))
    return _encoded(rest, begin, radix), num_hops


def _encoded(rest: list[Tensor], begin: list[Tensor], radix: int) -> Tensor:
    """Return walks as integers: `rest + begin * radix`, for all lengths."""
    return torch.add(torch.cat(rest), torch.cat(begin), alpha=radix)

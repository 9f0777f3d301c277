"""Split rooted subgraphs into slices that are processed one by one, to save memory."""

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from gnnak.graphs.ragged import chunk_cuts
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_count


def slices(subgraphs: RootedSubgraphs, max_copies: int) -> Iterator[RootedSubgraphs]:
    """Split subgraphs into consecutive slices of about `max_copies` node copies each.

    A node copy is a node as it occurs in one rooted subgraph. Subgraphs are never
    split: a subgraph with more than `max_copies` nodes is a slice by itself. Each slice
    numbers node copies and subgraphs from 0, while `node` and `edge` still refer to the
    whole graph. Tensors of a slice that need no renumbering are views.

    Args:
        subgraphs: The rooted subgraphs to split.
        max_copies: Approximate number of node copies in a slice; at least 1.

    Yields:
        The slices, in order.

    >>> from gnnak import EgoNets
    >>> ring = torch.stack([torch.arange(6), torch.arange(1, 7) % 6])
    >>> [part.root.tolist() for part in slices(EgoNets(2)(ring, 6), 7)]
    [[0, 1], [2, 3], [4, 5]]
    """
    check_count("max_copies", max_copies, least=1)
    sizes = subgraphs.sizes
    alone = (sizes > max_copies).nonzero().flatten()
    inner = {*chunk_cuts(sizes, max_copies), *alone.tolist(), *(alone + 1).tolist()}
    cuts = sorted({0, sizes.numel()} | inner)
    ends = sizes.cumsum(0)
    target = subgraphs.edge_index[1].contiguous()
    for first, last in pairwise(cuts):
        if first == last:
            continue
        low = int(ends[first - 1]) if first else 0
        high = int(ends[last - 1])
        bounds = torch.tensor([low, high], device=target.device)
        begin, end = torch.searchsorted(target, bounds).tolist()
        yield _cut(subgraphs, slice(first, last), slice(low, high), slice(begin, end))


def _cut(
    subgraphs: RootedSubgraphs, roots: slice, copies: slice, edges: slice
) -> RootedSubgraphs:
    """Return consecutive subgraphs as one slice, renumbered from 0.

    `roots`, `copies` and `edges` are the ranges of these subgraphs and of their nodes
    and edges.
    """

    def from_zero(values: Tensor, start: int) -> Tensor:
        return values - start if start else values

    return RootedSubgraphs(
        subgraphs.root[roots],
        subgraphs.node[copies],
        from_zero(subgraphs.subgraph[copies], roots.start),
        subgraphs.hop[copies],
        from_zero(subgraphs.edge_index[:, edges], copies.start),
        subgraphs.edge[edges],
        subgraphs.num_nodes,
        subgraphs.num_edges,
    )

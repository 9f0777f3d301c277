"""Group node copies by their node (or subgraph) and their distance to the root.

A node copy is a node as it occurs in one rooted subgraph. The node copies of one node
that have the same distance to their roots form a pair (node, distance).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from gnnak.fast.cpu.incidence import Incidence, gather_matrix
from gnnak.nn.encodings import HopTable
from gnnak.subgraphs.rooted import RootedSubgraphs

PairAxis = Literal["node", "subgraph"]
"""The first key of a pair: the node or the subgraph of a node copy."""


class Numbering(NamedTuple):
    """The distinct values of a key, numbered in ascending order."""

    distinct: Tensor
    """[u]: the distinct values."""
    number: Tensor
    """[m]: for each row, the number of its value, in 0..u-1."""


class HopPairs(NamedTuple):
    """The distinct pairs of a node (or a subgraph) and a row of the hop table.

    The hop table has a row for each distance to the root. Pairs are sorted by node (or
    subgraph), then by row of the hop table.
    """

    of_copies: Incidence
    """[m, u]: for each node copy (a node as it occurs in one subgraph), its pair."""
    of_keys: Incidence
    """[u, k]: for each pair, its node or its subgraph."""
    one_hot: Tensor
    """[u, t]: for each pair, a one at its row of the hop table, and zeros elsewhere."""


def numbered(key: Tensor, size: int) -> Numbering:
    """Number the distinct values of a key, in time proportional to `size`.

    Args:
        key: One value for each of m rows, in 0..size-1, [m].
        size: Number of possible values.

    >>> numbered(torch.tensor([7, 2, 7]), 9)
    Numbering(distinct=tensor([2, 7]), number=tensor([1, 0, 1]))
    """
    occurs = torch.zeros(size, dtype=torch.bool, device=key.device)
    occurs[key] = True
    return Numbering(occurs.nonzero().flatten(), (occurs.cumsum(0) - 1)[key])


def hop_pairs(
    hops: HopTable | None,
    subgraphs: RootedSubgraphs,
    axis: PairAxis,
    dtype: torch.dtype,
) -> HopPairs:
    """Find all pairs of a node (or a subgraph) and a distance to the root that occur.

    The result is cached in `subgraphs`.

    Args:
        hops: The hop table, which has a row for each distance to the root; None = a
            pair is a node (or a subgraph) alone.
        subgraphs: The rooted subgraphs, with `num_nodes` set.
        axis: Whether pairs have a node or a subgraph.
        dtype: The dtype of `one_hot`.
    """
    num_hops = 1 if hops is None else len(hops.weight)
    by_node = axis == "node"
    key = subgraphs.node if by_node else subgraphs.subgraph
    size = subgraphs.known_num_nodes if by_node else subgraphs.num_subgraphs

    def find() -> HopPairs:
        """Compute the result, if it is not in the cache."""
        pair = key if hops is None else key * num_hops + hops.rows(subgraphs)
        distinct, number = numbered(pair, size * num_hops)
        keys = gather_matrix(distinct // num_hops, size, in_order=True)
        columns = torch.arange(num_hops, device=key.device)
        one_hot = (distinct.remainder(num_hops)[:, None] == columns).to(dtype)
        copies = gather_matrix(number, distinct.numel())
        return HopPairs(copies, keys, one_hot)

    return subgraphs.once(f"pairs of {axis}, {num_hops}, {dtype}", find)

"""Coverage: in how many subgraphs a node is, and whether a choice covers enough."""

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of
from gnnak.subgraphs.rooted import RootedSubgraphs


def coverage(
    subgraphs: RootedSubgraphs, num_nodes: int, kept: Tensor | None = None
) -> Tensor:
    """In how many subgraphs every node is, [n].

    Args:
        subgraphs: The rooted subgraphs.
        num_nodes: Number of nodes, n.
        kept: Which subgraphs count, [s] bool; all if not given.
    """
    node = subgraphs.node
    if kept is not None:
        node = node[kept.index_select(0, subgraphs.subgraph)]
    return counts_of(node, num_nodes)


def is_cover(
    subgraphs: RootedSubgraphs, num_nodes: int, kept: Tensor, min_coverage: int
) -> bool:
    """Whether every node is covered `min_coverage` times, or as often as it can be.

    The verifier of every strategy: a node in fewer than `min_coverage` subgraphs must
    have them all kept.
    """
    wanted = coverage(subgraphs, num_nodes).clamp(max=min_coverage)
    return bool((coverage(subgraphs, num_nodes, kept) >= wanted).all())


def cover_by_order(
    subgraphs: RootedSubgraphs, component: Tensor, rank: Tensor, min_coverage: int
) -> Tensor:
    """Keep the subgraphs of every component, in order, until all is covered.

    Args:
        subgraphs: The rooted subgraphs, s of them.
        component: The component of each node, [n].
        rank: The place of each subgraph in the order, [s], a permutation.
        min_coverage: How often every node is to be covered, if it can be.

    Returns:
        Which subgraphs are kept, [s] bool.

    Node v is covered once the first `min_coverage` subgraphs that hold it are taken, so
    the last rank a component needs is the largest of these over its nodes.
    """
    num_nodes, num_subgraphs = component.numel(), subgraphs.num_subgraphs
    taken_at = rank.index_select(0, subgraphs.subgraph)
    key = torch.sort(subgraphs.node * num_subgraphs + taken_at).values
    held = counts_of(subgraphs.node, num_nodes)
    last = torch.cumsum(held, 0) - held + held.clamp(max=min_coverage) - 1
    at = key.index_select(0, last.clamp(min=0)) % max(num_subgraphs, 1)
    at = at.masked_fill(held == 0, -1)
    needed = at.new_full((num_nodes,), -1)
    needed = needed.scatter_reduce(0, component, at, "amax")
    home = component.index_select(0, subgraphs.root)
    return rank <= needed.index_select(0, home)

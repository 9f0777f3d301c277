"""Coverage: the number of sampled subgraphs that contain each node."""

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of
from gnnak.subgraphs.rooted import RootedSubgraphs


def coverage(
    subgraphs: RootedSubgraphs, num_nodes: int, sampled: Tensor | None = None
) -> Tensor:
    """Return, for each node, the number of subgraphs that contain the node, [n].

    Args:
        subgraphs: The s rooted subgraphs.
        num_nodes: Number of nodes, n.
        sampled: Boolean mask of the subgraphs to count, [s]; None = count all.
    """
    node = subgraphs.node
    if sampled is not None:
        node = node[sampled.index_select(0, subgraphs.subgraph)]
    return counts_of(node, num_nodes)


def is_cover(
    subgraphs: RootedSubgraphs, num_nodes: int, sampled: Tensor, min_coverage: int
) -> bool:
    """Return whether every node is in at least `min_coverage` sampled subgraphs.

    If fewer than `min_coverage` subgraphs contain a node, all of them must be sampled.
    The tests of the sampling strategies use this function.

    Args:
        subgraphs: The s rooted subgraphs.
        num_nodes: Number of nodes, n.
        sampled: Boolean mask of the sampled subgraphs, [s].
        min_coverage: R, the number of sampled subgraphs that must contain each node.
    """
    wanted = coverage(subgraphs, num_nodes).clamp(max=min_coverage)
    return bool((coverage(subgraphs, num_nodes, sampled) >= wanted).all())


def cover_by_order(
    subgraphs: RootedSubgraphs, component: Tensor, rank: Tensor, min_coverage: int
) -> Tensor:
    """Sample subgraphs in the order of their ranks until all nodes are covered.

    A node is covered if it is in at least `min_coverage` sampled subgraphs, or if all
    subgraphs that contain the node are sampled. Sampling stops in each connected
    component separately, as soon as all nodes of the component are covered.

    Args:
        subgraphs: The rooted subgraphs, s of them.
        component: The connected component of each node, [n].
        rank: Rank of each subgraph, [s], a permutation; the lowest is sampled first.
        min_coverage: R, the number of sampled subgraphs that must contain each node.

    Returns:
        Boolean mask of the sampled subgraphs, [s].
    """
    num_nodes, num_subgraphs = component.numel(), subgraphs.num_subgraphs
    copy_rank = rank.index_select(0, subgraphs.subgraph)
    key = torch.sort(subgraphs.node * num_subgraphs + copy_rank).values
    held = counts_of(subgraphs.node, num_nodes)
    last = torch.cumsum(held, 0) - held + held.clamp(max=min_coverage) - 1
    # The rank of the subgraph that completes the coverage of each node.
    node_rank = key.index_select(0, last.clamp(min=0)) % max(num_subgraphs, 1)
    node_rank = node_rank.masked_fill(held == 0, -1)
    needed = node_rank.new_full((num_nodes,), -1)
    needed = needed.scatter_reduce(0, component, node_rank, "amax")
    root_component = component.index_select(0, subgraphs.root)
    return rank <= needed.index_select(0, root_component)

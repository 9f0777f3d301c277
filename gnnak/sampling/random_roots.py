"""Coverage, and random sampling of roots: until covered, or a fixed share."""

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of
from gnnak.sampling.plan import Plan
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


MAX_DRAWS = 1000
"""How often the roots of a connected component are drawn until they cover its nodes."""
CHECKED = 1 << 22
"""Approximate number of node copies that are checked at a time, over several draws.
This bounds the temporary memory."""


def random_roots(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Sample subgraphs in random order until every node is covered.

    A node is covered if it is in at least `min_coverage` sampled subgraphs, or if all
    subgraphs that contain the node are sampled. Every connected component is sampled
    separately.

    Args:
        subgraphs: The s rooted subgraphs.
        plan: The sampling plan: what SubgraphDrop precomputes for this batch.
        min_coverage: R, the number of sampled subgraphs that must contain each node.
        generator: Source of randomness; PyTorch's default generator if None.

    Returns:
        Boolean mask of the sampled subgraphs, [s].
    """
    rank = random_order(subgraphs, generator)
    return cover_by_order(subgraphs, plan.component, rank, min_coverage)


def share_roots(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    share: float,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw a fixed share of the roots, again and again until every node is covered.

    In a connected component with c nodes, `int(share * c)` roots are drawn uniformly
    without replacement. If they do not cover all nodes of the component, all of them
    are drawn anew, at most `MAX_DRAWS` times. The components that are still not covered
    then are sampled with `random_roots`, which may sample more roots.

    Args:
        subgraphs: The s rooted subgraphs, one for every node.
        plan: The sampling plan: what SubgraphDrop precomputes for this batch.
        min_coverage: R, the number of sampled subgraphs that must contain each node.
        share: The share of the roots, below 1.
        generator: Source of randomness; PyTorch's default generator if None.

    Returns:
        Boolean mask of the sampled subgraphs, [s].
    """
    component, count = plan.component, plan.num_components
    wanted = plan.held.clamp(max=min_coverage)
    quota = (plan.by_component.ptr.diff().double() * share).long()
    holder = subgraphs.root.index_select(0, subgraphs.subgraph)
    # The nodes and node copies of components that are not covered yet.
    nodes = torch.arange(plan.num_nodes, device=subgraphs.device)
    inside = component.index_select(0, holder) == component[subgraphs.node]
    copies = inside.nonzero().flatten()
    sampled = torch.zeros_like(nodes, dtype=torch.bool)
    draws = 0
    while nodes.numel() and draws < MAX_DRAWS:
        times = max(CHECKED // max(copies.numel(), 1), 1)
        times = min(times, MAX_DRAWS - draws)
        draws += times
        of_node, number = component[nodes], torch.empty_like(component)
        number[nodes] = torch.arange(nodes.numel(), device=nodes.device)
        drawn = _draw(of_node, quota, times, generator)
        from_roots = drawn.index_select(1, number[holder[copies]])
        covered = _sums(from_roots, number[subgraphs.node[copies]], nodes.numel())
        covers = _sums(covered < wanted[nodes], of_node, count) == 0
        first = covers.int().argmax(0)[of_node]
        is_done = covers.any(0)
        sampled[nodes] = drawn.gather(0, first[None])[0] & is_done[of_node]
        nodes = nodes[~is_done[of_node]]
        copies = copies[~is_done[component[subgraphs.node[copies]]]]
    if nodes.numel():
        further = random_roots(subgraphs, plan, min_coverage, generator)
        sampled[nodes] = further[subgraphs.rooted_at[nodes]]
    return sampled.index_select(0, subgraphs.root)


def random_order(
    subgraphs: RootedSubgraphs, generator: torch.Generator | None
) -> Tensor:
    """Return a random permutation of 0..s-1, where s is the number of subgraphs.

    The result is on the device of `subgraphs`, even if `generator` is on another one.
    """
    device = subgraphs.device if generator is None else generator.device
    order = torch.randperm(subgraphs.num_subgraphs, generator=generator, device=device)
    return order.to(subgraphs.device)


def _draw(
    group: Tensor, quota: Tensor, times: int, generator: torch.Generator | None
) -> Tensor:
    """Draw `quota[i]` nodes of each group i at random, `times` times.

    Args:
        group: The group of each of n nodes, [n].
        quota: Number of nodes to draw from each group; at most the group's size.
        times: Number of draws.
        generator: Source of randomness; PyTorch's default generator if None.

    Returns:
        Boolean mask of the nodes in each draw, [times, n].
    """
    device = group.device if generator is None else generator.device
    size = (times, group.numel())
    luck = torch.rand(size, generator=generator, device=device, dtype=torch.double)
    order = (group + luck.to(group.device)).argsort(dim=1)
    # The groups are in the same order in every draw; only nodes within a group move.
    sizes = counts_of(group, quota.numel())
    of_place = group.sort().values
    place = torch.arange(group.numel(), device=group.device)
    place -= (sizes.cumsum(0) - sizes)[of_place]
    is_drawn = (place < quota[of_place]).expand(size)
    return torch.zeros_like(is_drawn).scatter(1, order, is_drawn)


def _sums(values: Tensor, index: Tensor, size: int) -> Tensor:
    """Add the columns of a matrix that have the same index.

    Args:
        values: Booleans, [times, m].
        index: Index of each column, [m].
        size: Number of indices.

    Returns:
        Number of true values with each index in each row, [times, size].
    """
    times = values.size(0)
    row = torch.arange(times, device=index.device)[:, None] * size
    total = torch.zeros(times * size, dtype=torch.int32, device=index.device)
    total.scatter_add_(0, (row + index).flatten(), values.flatten().int())
    return total.view(times, size)

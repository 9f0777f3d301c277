"""Count in how many subgraphs each node is, and sample roots at random."""

import torch
from torch import Generator, Tensor

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
        sampled: Boolean mask of the subgraphs to count, [s]. If None, all are counted.
    """
    node = subgraphs.node
    if sampled is not None:
        node = node[sampled.index_select(0, subgraphs.subgraph)]
    return counts_of(node, num_nodes)


def is_cover(
    subgraphs: RootedSubgraphs, num_nodes: int, sampled: Tensor, min_coverage: int
) -> bool:
    """Return whether every node is in at least `min_coverage` sampled subgraphs.

    If fewer than `min_coverage` subgraphs contain a node, all of these must be sampled.

    Args:
        subgraphs: The s rooted subgraphs.
        num_nodes: Number of nodes, n.
        sampled: Boolean mask of the sampled subgraphs, [s].
        min_coverage: R, the number of sampled subgraphs that must contain each node.
    """
    wanted = coverage(subgraphs, num_nodes).clamp(max=min_coverage)
    return bool((coverage(subgraphs, num_nodes, sampled) >= wanted).all())


MAX_TRIES = 1000
"""The roots of a connected component are sampled at most this many times."""
CHECKED = 1 << 22
"""About this many node copies are checked at a time, to bound the memory."""


def random_roots(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    generator: Generator | None = None,
) -> Tensor:
    """Sample subgraphs in random order until all nodes are covered; return a mask."""
    held, component = plan.held, plan.component
    num_nodes, num_subgraphs = component.numel(), subgraphs.num_subgraphs
    rank = random_order(subgraphs, generator)
    copy_rank = rank.index_select(0, subgraphs.subgraph)
    key = torch.sort(subgraphs.node * num_subgraphs + copy_rank).values
    last = torch.cumsum(held, 0) - held + held.clamp(max=min_coverage) - 1
    # The rank of the subgraph that completes the coverage of each node.
    node_rank = key.index_select(0, last.clamp(min=0)) % max(num_subgraphs, 1)
    node_rank = node_rank.masked_fill(held == 0, -1)
    needed = node_rank.new_full((num_nodes,), -1)
    needed = needed.scatter_reduce(0, component, node_rank, "amax")
    return rank <= needed[component.index_select(0, subgraphs.root)]


def share_roots(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    share: float,
    generator: Generator | None = None,
) -> Tensor:
    """Sample a share of the roots until a sample covers every node; return a mask."""
    component, count = plan.component, plan.num_components
    wanted = plan.held.clamp(max=min_coverage)
    quota = (plan.by_component.ptr.diff().double() * share).long()
    holder = subgraphs.root.index_select(0, subgraphs.subgraph)
    # The nodes and node copies of components that are not covered yet.
    has_quota = quota[component] > 0
    nodes = has_quota.nonzero().flatten()
    inside = component.index_select(0, holder) == component[subgraphs.node]
    copies = (inside & has_quota[subgraphs.node]).nonzero().flatten()
    sampled = torch.zeros_like(has_quota)
    tries = 0
    while nodes.numel() and tries < MAX_TRIES:
        times = max(CHECKED // max(copies.numel(), 1), 1)
        times = min(times, MAX_TRIES - tries)
        tries += times
        of_node, number = component[nodes], torch.empty_like(component)
        number[nodes] = torch.arange(nodes.numel(), device=nodes.device)
        chosen = _sample_each(of_node, quota, times, generator)
        from_roots = chosen.index_select(1, number[holder[copies]])
        covered = _sums(from_roots, number[subgraphs.node[copies]], nodes.numel())
        covers = _sums(covered < wanted[nodes], of_node, count) == 0
        first = covers.int().argmax(0)[of_node]
        is_done = covers.any(0)
        sampled[nodes] = chosen.gather(0, first[None])[0] & is_done[of_node]
        nodes = nodes[~is_done[of_node]]
        copies = copies[~is_done[component[subgraphs.node[copies]]]]
    nodes = torch.cat([nodes, (~has_quota).nonzero().flatten()])
    if nodes.numel():
        further = random_roots(subgraphs, plan, min_coverage, generator)
        sampled[nodes] = further[subgraphs.rooted_at[nodes]]
    return sampled.index_select(0, subgraphs.root)


def random_order(subgraphs: RootedSubgraphs, generator: Generator | None) -> Tensor:
    device = subgraphs.device if generator is None else generator.device
    order = torch.randperm(subgraphs.num_subgraphs, generator=generator, device=device)
    return order.to(subgraphs.device)


def _sample_each(
    group: Tensor, quota: Tensor, times: int, generator: Generator | None
) -> Tensor:
    """Return `times` random masks, [times, n], of `quota[i]` nodes of each group i."""
    device = group.device if generator is None else generator.device
    size = (times, group.numel())
    luck = torch.rand(size, generator=generator, device=device, dtype=torch.double)
    order = (group + luck.to(group.device)).argsort(dim=1)
    # Groups have the same order in every sample; only nodes within a group move.
    sizes = counts_of(group, quota.numel())
    of_place = group.sort().values
    place = torch.arange(group.numel(), device=group.device)
    place -= (sizes.cumsum(0) - sizes)[of_place]
    is_sampled = (place < quota[of_place]).expand(size)
    return torch.zeros_like(is_sampled).scatter(1, order, is_sampled)


def _sums(values: Tensor, index: Tensor, size: int) -> Tensor:
    """Count True per row and group, [rows, size]; column j is in group `index[j]`."""
    times = values.size(0)
    row = torch.arange(times, device=index.device)[:, None] * size
    total = torch.zeros(times * size, dtype=torch.int32, device=index.device)
    total.scatter_add_(0, (row + index).flatten(), values.flatten().int())
    return total.view(times, size)

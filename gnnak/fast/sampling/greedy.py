"""Greedy sampling of roots for SubgraphDrop, as one Triton kernel.

The PyTorch version launches many kernels per sampled root, and synchronises with the
host to know when to stop. Here one Triton program per connected component samples all
roots of the component in a loop on the device.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.sampling import block_of
from gnnak.sampling.greedy import Ties, tie_ranks
from gnnak.sampling.plan import Plan
from gnnak.subgraphs.rooted import RootedSubgraphs


def sample_greedily(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    rank: Tensor,
    farthest: bool,
    ties: Ties = "random",
) -> Tensor:
    """Sample subgraphs greedily until each node is in `min_coverage` sampled subgraphs.

    Each step samples the subgraph with the highest score. The result equals that of the
    PyTorch function `gnnak.sampling.greedy.sample_greedily` with the same score.

    Args:
        subgraphs: All s rooted subgraphs of the batch, one per node. All nodes of a
            subgraph must be in the connected component of its root.
        plan: The sampling plan: what SubgraphDrop precomputes for the batch.
        min_coverage: Number of sampled subgraphs that must contain each node. If a node
            is in fewer than `min_coverage` subgraphs, all of these are sampled.
        rank: A random permutation, [s]; in each connected component, the subgraph with
            the highest rank is sampled first.
        farthest: If True, the score of a subgraph is the distance of its root from the
            nearest sampled root (farthest sampling). If False, the score is the number
            of least covered nodes in the subgraph (minimum set cover). These are, of
            all nodes that need more sampled subgraphs, those in the fewest.
        ties: Which of several subgraphs with equal scores is sampled.

    Returns:
        A boolean mask of the sampled subgraphs, [s].
    """
    kept = torch.zeros_like(rank, dtype=torch.bool)
    if not plan.num_components:
        return kept
    groups, block = plan.by_component, block_of(plan)
    if farthest:
        assert plan.distances is not None, "a plan for farthest sampling has distances"
        table, row = plan.distances.hop, plan.distances.start
    else:
        table = row = torch.empty_like(plan.held, dtype=torch.int32)
    _draw[(plan.num_components,)](
        groups.ptr,
        groups.order,
        subgraphs.rooted_at,
        rank,
        tie_ranks(subgraphs, rank, ties),
        plan.held,
        subgraphs.by("subgraph").ptr,
        subgraphs.node,
        table,
        row,
        kept.view(torch.int8),
        rank.numel(),
        min_coverage,
        farthest,
        block,
        num_warps=1 if block <= 64 else 2,
    )
    return kept


@triton.jit(
    do_not_specialize=["s", "min_coverage"],
    do_not_specialize_on_alignment=[
        "component_ptr",
        "order",
        "rooted_at",
        "rank",
        "tie_rank",
        "held",
        "copy_ptr",
        "member",
        "table",
        "row",
        "kept",
    ],
)
def _draw(
    component_ptr,
    order,
    rooted_at,
    rank,
    tie_rank,
    held,
    copy_ptr,
    member,
    table,
    row,
    kept,
    s,
    min_coverage,
    FARTHEST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Triton kernel of `sample_greedily`: sample roots in one connected component.

    Each iteration samples the subgraph with the highest score, until each node is in
    `min_coverage` sampled subgraphs.
    """
    begin = tl.load(component_ptr + tl.program_id(0))
    place = tl.arange(0, BLOCK)
    # `there`: this element of the block has a node. `able`: the subgraph rooted at that
    # node is not sampled yet.
    able = place < tl.load(component_ptr + tl.program_id(0) + 1) - begin
    there = able
    node = tl.load(order + begin + place, mask=there, other=0)
    subgraph = tl.load(rooted_at + node, mask=there, other=0)
    luck = tl.load(tie_rank + subgraph, mask=there, other=0)
    wanted = tl.load(held + node, mask=there, other=0)
    wanted = tl.minimum(wanted, min_coverage)
    covered = tl.zeros_like(wanted)
    nearest = tl.zeros_like(wanted) + s
    points = tl.where(able, tl.load(rank + subgraph, mask=there, other=0), -1)
    best = tl.max(points, axis=0)
    while best >= 0:
        # No two ranks are equal, so `points` is equal to `best` for exactly one node.
        picked = points == best
        tl.store(kept + subgraph, 1, mask=picked)
        able = able & (points != best)
        chosen = tl.sum(tl.where(picked, subgraph, 0), axis=0)
        covered += _holds(copy_ptr, member, chosen, node).to(tl.int64)
        lacking = there & (covered < wanted)
        if FARTHEST:
            root = tl.sum(tl.where(picked, node, 0), axis=0)
            far = tl.load(table + tl.load(row + root) + place, mask=there, other=0)
            nearest = tl.minimum(nearest, far.to(tl.int64))
            score = nearest
        else:
            least = tl.min(tl.where(lacking, covered, s), axis=0)
            marked = lacking & (covered == least)
            score = _total(copy_ptr, member, table, node, subgraph, marked, there)
        points = tl.where(able, score * s + luck, -1)
        left = tl.max(lacking.to(tl.int32), axis=0)
        best = tl.where(left > 0, tl.max(points, axis=0), -1)


@triton.jit
def _holds(copy_ptr, member, chosen, node):
    """Return a mask of the nodes that the subgraph `chosen` contains.

    Uses binary search in the subgraph's nodes, which are sorted in `member`.
    """
    begin = tl.load(copy_ptr + chosen)
    count = tl.load(copy_ptr + chosen + 1) - begin
    at = tl.zeros_like(node) + begin
    while count > 1:
        half = count // 2
        at += tl.where(tl.load(member + at + half) <= node, half, 0)
        count -= half
    return tl.load(member + at) == node


@triton.jit
def _total(copy_ptr, member, marks, node, subgraph, marked, there):
    """Return, for each subgraph, how many of its nodes are marked.

    `marked` is True for each marked node of the connected component; `marks` is a
    buffer in which the kernel stores the same mask.
    """
    # Threads exchange the marks of their nodes through a buffer in global memory.
    tl.debug_barrier()
    tl.store(marks + node, marked.to(tl.int32), mask=there)
    tl.debug_barrier()
    begin = tl.load(copy_ptr + subgraph, mask=there, other=0)
    count = tl.load(copy_ptr + subgraph + 1, mask=there, other=0) - begin
    longest = tl.max(count, axis=0)
    total = tl.zeros_like(subgraph)
    k = 0
    while k < longest:
        live = k < count
        held = tl.load(member + begin + k, mask=live, other=0)
        total += tl.load(marks + held, mask=live, other=0)
        k += 1
    return total

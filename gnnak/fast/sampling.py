"""Triton kernels of SubgraphDrop: sample roots, and estimate dropped encodings.

In each kernel, one program handles one connected component.
"""

from dataclasses import replace

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.layers.parts import Serves, implements
from gnnak.graphs.ragged import pointers
from gnnak.sampling.estimate import Filling
from gnnak.sampling.greedy import Ties, tie_ranks
from gnnak.sampling.plan import Plan
from gnnak.sampling.random_roots import random_order
from gnnak.subgraphs.rooted import RootedSubgraphs

FAST_NODES = 256
"""Largest connected component, in nodes, that the kernels support."""
MIN_BLOCK = 64
"""Smallest block size, in nodes. Triton compiles each kernel once per block size."""


def _block_of(plan: Plan) -> int:
    return max(2 ** (plan.largest - 1).bit_length(), MIN_BLOCK)


def can_sample(serves: Serves, plan: Plan) -> bool:
    return plan.largest <= FAST_NODES and serves(plan.held)


def sample_greedily(
    serves: Serves,
    farthest: bool,
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    generator: torch.Generator | None = None,
    ties: Ties = "random",
) -> Tensor:
    """Sample roots, farthest first or by greedy set cover; return a mask, [s]."""
    if not can_sample(serves, plan):
        return NotImplemented
    rank = random_order(subgraphs, generator)
    kept = torch.zeros_like(rank, dtype=torch.bool)
    if not plan.num_components:
        return kept
    groups, block = plan.by_component, _block_of(plan)
    if farthest:
        assert plan.distances is not None, "a plan for farthest sampling has distances"
        table, row = plan.distances.hop, plan.distances.start
    else:
        table = row = torch.empty_like(plan.held, dtype=torch.int32)
    _draw[(plan.num_components,)](
        groups.ptr, groups.order, subgraphs.rooted_at, rank,
        tie_ranks(subgraphs, rank, ties), plan.held, subgraphs.by("subgraph").ptr,
        subgraphs.node, table, row, kept.view(torch.int8), rank.numel(), min_coverage,
        farthest, block,
        num_warps=1 if block <= 64 else 2,
    )  # fmt: skip
    return kept


@triton.jit(
    do_not_specialize=["s", "min_coverage"],
    do_not_specialize_on_alignment=[
        "component_ptr", "order", "rooted_at", "rank", "tie_rank", "held", "copy_ptr",
        "member", "table", "row", "kept",
    ],
)  # fmt: skip
def _draw(
    component_ptr, order, rooted_at, rank, tie_rank, held, copy_ptr, member, table, row,
    kept, s, min_coverage,
    FARTHEST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sample roots in one connected component, one by one, by the highest score."""
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


@implements("filling_of")
def fast_filling(
    serves: Serves,
    subgraphs: RootedSubgraphs,
    edge_index: Tensor,
    kept: Tensor,
    number: Tensor,
    root: Tensor,
    plan: Plan | None,
) -> Filling:
    """Compute `filling_of`, with the matrix entries sorted by connected component."""
    if plan is None or not can_sample(serves, plan):
        return NotImplemented
    groups, near, nodes = plan.by_component, plan.near, subgraphs.rooted_at
    home = plan.component.index_select(0, subgraphs.root)
    widths = torch.zeros_like(groups.ptr[1:]).index_add_(0, home, kept.long())
    first = pointers(widths * groups.ptr.diff())
    total = int(first[-1])
    node, subgraph = nodes.new_empty(2, total)
    weight = torch.empty_like(node, dtype=torch.double)
    if plan.num_components:
        block = _block_of(plan)
        _fill[(plan.num_components,)](
            groups.ptr, groups.order, nodes, kept.view(torch.int8), number, near.start,
            near.count, near.place, first, torch.empty_like(nodes, dtype=torch.int32),
            node, subgraph, weight, block,
            num_warps=1 if block <= 64 else 2,
        )  # fmt: skip
    taken = weight.nonzero().flatten()
    return replace(Filling(node, subgraph, weight).at(taken), in_order=True)


@triton.jit(
    do_not_specialize_on_alignment=[
        "component_ptr", "order", "rooted_at", "kept", "number", "near_start",
        "near_count", "near", "first", "layers", "out_node", "out_subgraph", "weight",
    ]
)  # fmt: skip
def _fill(
    component_ptr, order, rooted_at, kept, number, near_start, near_count, near, first,
    layers, out_node, out_subgraph, weight,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute the `Filling` of one component, step by step from the sampled roots."""
    begin = tl.load(component_ptr + tl.program_id(0))
    place = tl.arange(0, BLOCK)
    there = place < tl.load(component_ptr + tl.program_id(0) + 1) - begin
    node = tl.load(order + begin + place, mask=there, other=0)
    subgraph = tl.load(rooted_at + node, mask=there, other=0)
    is_root = tl.load(kept + subgraph, mask=there, other=0) > 0
    column = tl.cumsum(is_root.to(tl.int32), axis=0) - 1
    width = tl.max(column, axis=0) + 1
    column = tl.where(is_root, column, -1)
    table = tl.load(first + tl.program_id(0))
    row = table + place * width
    mine = tl.load(number + subgraph, mask=there, other=0)
    _begin(out_node, out_subgraph, weight, row, column, node, mine, there, width)
    start = tl.load(near_start + node, mask=there, other=0)
    count = tl.load(near_count + node, mask=there, other=0)
    # The distance of each node from the nearest sampled root, -1 while unknown.
    layer = tl.where(is_root, 0, -1)
    layers += begin
    distance, grew = 1, 1
    while grew > 0:
        tl.store(layers + place, layer, mask=there)
        tl.debug_barrier()
        nearer = _nearer(layers, near, start, count, distance)
        new = there & (layer < 0) & (nearer > 0)
        share = 1.0 / tl.maximum(nearer, 1).to(tl.float64)
        edges = tl.where(new, count, 0)
        j = 0
        while j < width:
            at = weight + table + j
            total = _mean(at, width, layers, near, start, edges, share, distance)
            tl.store(weight + row + j, total, mask=new)
            j += 1
        layer = tl.where(new, distance, layer)
        grew = tl.max(new.to(tl.int32), axis=0)
        distance += 1
        tl.debug_barrier()


@triton.jit
def _begin(out_node, out_subgraph, weight, row, column, node, mine, there, width):
    """Set weight (i, j) to 1 if node i is the j-th sampled root, and else to 0."""
    j = 0
    while j < width:
        owner = column == j
        chosen = tl.sum(tl.where(owner, mine, 0), axis=0)
        tl.store(out_node + row + j, node, mask=there)
        tl.store(out_subgraph + row + j, tl.zeros_like(node) + chosen, mask=there)
        tl.store(weight + row + j, owner.to(tl.float64), mask=there)
        j += 1


@triton.jit
def _nearer(layers, near, start, count, distance):
    """Count each node's neighbours at `distance - 1` from the nearest sampled root."""
    nearer = tl.zeros_like(count)
    longest = tl.max(count, axis=0)
    k = 0
    while k < longest:
        beside = tl.load(near + start + k, mask=k < count, other=0)
        last = tl.load(layers + beside, mask=k < count, other=-2)
        nearer += (last == distance - 1).to(nearer.dtype)
        k += 1
    return nearer


@triton.jit
def _mean(column, width, layers, near, start, count, share, distance):
    """Average `column` over neighbours one step nearer to the nearest sampled root."""
    total = tl.zeros_like(share)
    longest = tl.max(count, axis=0)
    k = 0
    while k < longest:
        beside = tl.load(near + start + k, mask=k < count, other=0)
        last = tl.load(layers + beside, mask=k < count, other=-2)
        is_nearer = last == distance - 1
        total += share * tl.load(column + beside * width, mask=is_nearer, other=0.0)
        k += 1
    return total

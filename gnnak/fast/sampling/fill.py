"""Weights for estimating the encodings of dropped roots, computed by a Triton kernel.

SubgraphDrop encodes only the sampled rooted subgraphs. The encoding of any other root
is estimated as a weighted sum of the computed encodings: a node at distance d from the
nearest sampled root gets the mean over its neighbours at distance d - 1. The weights
are therefore computed for d = 1, then d = 2, and so on. One Triton program does this
for a whole connected component; the PyTorch version (`plan_filling`) launches several
kernels per distance.
"""

from dataclasses import replace

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.sampling import block_of
from gnnak.graphs.ragged import pointers
from gnnak.sampling.estimate import Filling
from gnnak.sampling.plan import Plan
from gnnak.subgraphs.rooted import RootedSubgraphs


def fast_filling(
    subgraphs: RootedSubgraphs, plan: Plan, kept: Tensor, number: Tensor
) -> Filling:
    """Compute the weights with which encodings of dropped roots are estimated.

    The encoding of a root whose subgraph is dropped is estimated as a weighted sum of
    the encodings of sampled roots. The weights form a sparse matrix, with the same
    entries as in `plan_filling`, the PyTorch version, but sorted by connected
    component.

    Args:
        subgraphs: All s rooted subgraphs of the batch, one per node.
        plan: The sampling plan: what SubgraphDrop precomputes for the batch.
        kept: Boolean mask of the sampled subgraphs, [s]. At least one subgraph of every
            connected component must be sampled.
        number: For each sampled subgraph, its index when only the sampled subgraphs are
            counted, [s]; entries of other subgraphs are ignored.
    """
    groups, near, nodes = plan.by_component, plan.near, subgraphs.rooted_at
    home = plan.component.index_select(0, subgraphs.root)
    widths = torch.zeros_like(groups.ptr[1:]).index_add_(0, home, kept.long())
    first = pointers(widths * groups.ptr.diff())
    total = int(first[-1])
    node, subgraph = nodes.new_empty(2, total)
    weight = torch.empty_like(node, dtype=torch.double)
    if plan.num_components:
        block = block_of(plan)
        _fill[(plan.num_components,)](
            groups.ptr,
            groups.order,
            nodes,
            kept.view(torch.int8),
            number,
            near.start,
            near.count,
            near.place,
            first,
            torch.empty_like(nodes, dtype=torch.int32),
            node,
            subgraph,
            weight,
            block,
            num_warps=1 if block <= 64 else 2,
        )
    taken = weight.nonzero().flatten()
    return replace(Filling(node, subgraph, weight).at(taken), in_order=True)


@triton.jit(
    do_not_specialize_on_alignment=[
        "component_ptr",
        "order",
        "rooted_at",
        "kept",
        "number",
        "near_start",
        "near_count",
        "near",
        "first",
        "layers",
        "out_node",
        "out_subgraph",
        "weight",
    ]
)
def _fill(
    component_ptr,
    order,
    rooted_at,
    kept,
    number,
    near_start,
    near_count,
    near,
    first,
    layers,
    out_node,
    out_subgraph,
    weight,
    BLOCK: tl.constexpr,
):
    """Triton kernel of `fast_filling`: compute the weights in one connected component.

    The weights of a node are those with which its encoding is estimated from the
    encodings of sampled roots. The kernel computes them for the sampled roots, then for
    nodes at distance 1 from the nearest sampled root, then at distance 2, and so on.
    """
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
    """Initialise the weights of `_fill` for one connected component.

    They are a matrix with one row per node and one column per sampled root. An entry is
    1 if the node is the sampled root, else 0.
    """
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
    """Count, for each node, its neighbours at distance `distance - 1`.

    The distance of a node is measured from the nearest sampled root.
    """
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
    """Average weights, for each node, over its neighbours at distance `distance - 1`.

    The distance of a node is measured from the nearest sampled root. `column` points to
    the weight of each node for one sampled root; `share` is 1 / (number of such
    neighbours).
    """
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

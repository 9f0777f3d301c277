"""Extract the rooted subgraphs of batches, and pad their rows, on a GPU."""

from math import prod

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.tiles import cdiv
from gnnak.fast.layers.parts import Serves, implements
from gnnak.graphs.adjacency import Neighbors
from gnnak.graphs.ragged import pointers
from gnnak.subgraphs.copy_limit import CopyLimit

WIDEST = 256
"""Largest number of nodes in a block; `fast_reach` defines blocks."""
MOST_ENTRIES = 1 << 26
"""Largest number of elements of the matrix in `fast_reach`."""
FAR = 1 << 14
"""Distance between nodes without a walk."""
HUB = 16
"""Largest supported in-degree, as a multiple of the mean in-degree of node copies."""
BLOCK = 128
"""Number of node copies that one Triton program handles."""
VALUES = 1024
"""Number of consecutive padded values that one Triton program writes."""


@implements("reach")
def fast_reach(
    serves: Serves,
    root: Tensor,
    neighbors: Neighbors,
    num_hops: int,
    limit: CopyLimit | None = None,
    all_roots: bool = False,
) -> tuple[Tensor, Tensor]:
    """Find the nodes of the egonets of all nodes.

    The nodes are divided into *blocks*: ranges of consecutive nodes without edges to
    other ranges. A matrix has the distances between the nodes of each block: row v, and
    column j for the j-th node of the block of v.
    """
    if not all_roots or not serves(root):
        return NotImplemented
    size, device = neighbors.num_nodes, root.device
    source, target = neighbors.node, neighbors.key // max(size, 1)
    node = torch.arange(size, device=device)
    low, high = torch.minimum(source, target), torch.maximum(source, target)
    farthest = node.scatter_reduce(0, low, high, "amax").cummax(0).values
    end = (farthest == node).nonzero().flatten()
    count = end.diff(prepend=end.new_full((1,), -1))
    width = int(count.max()) if size else 0
    if not 0 < width <= WIDEST or size * width > MOST_ENTRIES:
        return NotImplemented
    first = torch.repeat_interleave(end - count + 1, count, output_size=size)

    hop = torch.full((size, width), FAR, dtype=torch.int16, device=device)
    hop.scatter_(1, (node - first)[:, None], 0)
    block = triton.next_power_of_2(width)
    for _ in range(min(num_hops, width - 1)):
        before, hop = hop, torch.empty_like(hop)
        _one_hop[(size,)](before, neighbors.ptr, neighbors.node, hop, width, block)

    entry = (hop.flatten() < FAR).nonzero().flatten()
    limit = limit or CopyLimit(None, device)
    limit.check(entry.numel(), what="node copies")
    found = entry // width
    # The node of column j in row v is first[v] + j.
    key = (node * (size - width) + first).index_select(0, found) + entry
    return key, hop.flatten().index_select(0, entry).long()


@triton.jit(
    do_not_specialize=["width"],
    do_not_specialize_on_alignment=["before", "ptr", "neighbor", "hop"],
)
def _one_hop(before, ptr, neighbor, hop, width, BLOCK: tl.constexpr):
    """Extend shortest walks to a node by one edge: a row of `fast_reach`'s matrix."""
    v = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    there = column < width
    nearest = tl.load(before + v * width + column, mask=there, other=0)
    for entry in range(tl.load(ptr + v), tl.load(ptr + v + 1)):
        u = tl.load(neighbor + entry)
        longer = tl.load(before + u * width + column, mask=there, other=0) + 1
        nearest = tl.minimum(nearest, longer)
    tl.store(hop + v * width + column, nearest, mask=there)


@implements("induced_edges")
def fast_induced_edges(
    serves: Serves,
    node: Tensor,
    subgraph: Tensor,
    num_subgraphs: int,
    neighbors: Neighbors,
    limit: CopyLimit | None = None,
) -> tuple[Tensor, Tensor]:
    copies = node.numel()
    if not copies or not serves(node):
        return NotImplemented
    in_degree = neighbors.ptr.diff().index_select(0, node)
    largest, work = torch.stack([in_degree.max(), in_degree.sum()]).tolist()
    if largest * copies > HUB * work:
        return NotImplemented
    every = torch.arange(num_subgraphs + 1, device=node.device)
    first = torch.searchsorted(subgraph, every)
    count = torch.zeros_like(node)
    given = (node, subgraph, first, neighbors.ptr, neighbors.node, neighbors.edge)
    grid = (cdiv(copies, BLOCK),)
    _edges[grid](*given, count, count, count, copies, 0, False, BLOCK)
    start = pointers(count)
    total = int(start[-1])
    limit = limit or CopyLimit(None, node.device)
    limit.check(copies + total)
    ends, edge = node.new_empty(2, total), node.new_empty(total)
    _edges[grid](*given, start, ends, edge, copies, total, True, BLOCK)
    return ends, edge


FIELDS = ["node", "subgraph", "first", "ptr", "neighbor", "name", "start", "ends"]
"""Pointers that kernels take. Triton must not recompile if their alignment changes."""


@triton.jit(
    do_not_specialize=["copies", "total"],
    do_not_specialize_on_alignment=[*FIELDS, "edge"],
)
def _edges(
    node, subgraph, first, ptr, neighbor, name, start, ends, edge, copies, total,
    WRITE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """For each node copy, find the incoming edges with a source in the same subgraph.

    Without `WRITE`, count them in `start`; else write them to `ends` and `edge`.
    """
    copy = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = copy < copies
    of = tl.load(subgraph + copy, mask=there, other=0)
    begin = tl.load(first + of, mask=there, other=0)
    members = tl.load(first + of + 1, mask=there, other=1) - begin
    most = tl.max(members, axis=0)
    v = tl.load(node + copy, mask=there, other=0)
    entry = tl.load(ptr + v, mask=there, other=0)
    stop = tl.load(ptr + v + 1, mask=there, other=0)
    # Without WRITE, this counts from 0.
    out = tl.load(start + copy, mask=there & WRITE, other=0)
    longest = tl.max(stop - entry, axis=0)
    while longest > 0:
        active = entry < stop
        u = tl.load(neighbor + entry, mask=active, other=0)
        # `low` is the last position with a node of at most u, or the first position.
        low, left, size = begin, members, most
        while size > 1:
            half = left // 2
            middle = tl.load(node + low + half, mask=active, other=0)
            low += tl.where((middle <= u) & (half > 0), half, 0)
            left -= half
            size -= size // 2
        found = active & (tl.load(node + low, mask=active, other=-1) == u)
        if WRITE:
            tl.store(ends + out, low, mask=found)
            tl.store(ends + total + out, copy, mask=found)
            name_of = tl.load(name + entry, mask=found, other=0)
            tl.store(edge + out, name_of, mask=found)
        out += found.to(tl.int64)
        entry += 1
        longest -= 1
    if not WRITE:
        tl.store(start + copy, out, mask=there)


@implements("pad_rows")
def pad_rows(
    serves: Serves, value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
) -> Tensor:
    if not serves(value):
        return NotImplemented
    value = value.contiguous()
    out = value.new_empty(first.numel(), size, *value.shape[1:])
    width = prod(value.shape[1:])
    grid = (first.numel(), cdiv(max(size * width, 1), VALUES))
    _pad_rows[grid](value, first, count, out, size, width, padding, VALUES)
    return out


@triton.jit(
    do_not_specialize=["size", "width", "padding"],
    do_not_specialize_on_alignment=["value", "first", "count", "out"],
)
def _pad_rows(value, first, count, out, size, width, padding, BLOCK: tl.constexpr):
    batch = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside, real = place < size * width, place < tl.load(count + batch) * width
    found = tl.load(
        value + tl.load(first + batch) * width + place, mask=inside & real, other=0
    )
    found = tl.where(real, found, padding.to(found.dtype))
    tl.store(out + batch * size * width + place, found, mask=inside)

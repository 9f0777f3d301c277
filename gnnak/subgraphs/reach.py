"""Breadth-first search from many roots at once, storing only the nodes found."""

import sys
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.backend import operation
from gnnak.errors import GraphError
from gnnak.graphs.adjacency import Neighbors, components
from gnnak.graphs.ragged import (
    INT64_MAX,
    chunk_cuts,
    counts_of,
    ragged_ranges,
    ragged_ranges_to,
    range_ends,
    sorted_values,
)
from gnnak.subgraphs.copy_limit import CopyLimit
from gnnak.subgraphs.induce import induced_edges
from gnnak.subgraphs.rooted import RootedSubgraphs

ON_CPU = 1 << 14
"""On a CPU, `reach` lists at most this many walks before it drops duplicates."""
ON_DEVICE = 1 << 18
"""On a GPU, `reach` lists at most this many walks before it drops duplicates."""


def list_walks(
    root: Tensor,
    neighbors: Neighbors,
    num_hops: int,
    most: float,
    all_roots: bool = False,
) -> tuple[Tensor, int]:
    """List walks of up to `num_hops` steps to the roots, but at most `most` walks.

    A walk from v to `root[i]` is the number `(i * n + v) * (num_hops + 1) + length`.
    Different walks can have equal numbers. `all_roots` says whether every node is a
    root. Also return the length up to which all walks are listed.
    """
    radix, total = num_hops + 1, root.numel()
    step, degree = max(neighbors.num_nodes, 1) * radix, neighbors.ptr.diff()
    # For each length: the encoded walks without the term of v, and the nodes v.
    rest = [torch.arange(0, total * step, step, device=root.device)]
    begin = [root]
    for length in range(num_hops):
        # If every node is a root, the walks of length 1 are the edges.
        are_edges = all_roots and length == 0
        if are_edges:
            work = neighbors.node.numel()
        else:
            count = degree.index_select(0, begin[-1])
            end, work = range_ends(count)
        total += work
        if total > most:
            return _encoded(rest, begin, radix), length
        if not work:
            break
        if are_edges:
            rest.append((neighbors.key - neighbors.node).mul_(radix).add_(1))
            begin.append(neighbors.node)
        else:
            stop = neighbors.ptr[1:].index_select(0, begin[-1])
            row, entry = ragged_ranges_to(stop, count, end, work)
            rest.append(rest[-1].index_select(0, row).add_(1))
            begin.append(neighbors.node.index_select(0, entry))
    return _encoded(rest, begin, radix), num_hops


def _encoded(rest: list[Tensor], begin: list[Tensor], radix: int) -> Tensor:
    return torch.add(torch.cat(rest), torch.cat(begin), alpha=radix)


CHUNK = 1 << 22
"""Approximate limit on the edges per step. Beyond it, the roots are divided up."""
SAMPLE = 64
"""Number of random roots from which `estimated_copies` estimates the node copies."""


@operation
def reach(
    root: Tensor,
    neighbors: Neighbors,
    num_hops: int,
    limit: CopyLimit | None = None,
    all_roots: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return `i * n + v` and the distance for each v in the egonet of `root[i]`, [m].

    All walks to the roots are listed, then duplicates are removed. If there are too
    many walks, duplicates are removed after each step. If `all_roots` is True, `root`
    must be 0..n-1.
    """
    limit = limit or CopyLimit(None, root.device)
    size = max(neighbors.num_nodes, 1)
    farthest = min(num_hops, neighbors.num_nodes)
    radix = min(farthest + 1, INT64_MAX // (size * size))
    few = min(CHUNK, ON_CPU if root.device.type == "cpu" else ON_DEVICE)
    few = limit.count if limit.is_below(few) else few
    walks, length = list_walks(root, neighbors, radix - 1, few, all_roots)
    seen = _shortest(walks, radix)
    pair, hop = decoded(seen, radix)
    if length == farthest:
        limit.check(seen.numel(), what="node copies")
        return pair, hop
    frontier = pair.masked_select(hop == length)
    waiting, found = [_Search(seen, frontier, length + 1)], []
    total, most = 0, None
    while waiting:
        search = waiting.pop()
        if search.frontier.numel() and search.hop < radix:
            start, count = neighbors.rows(search.frontier % size)
            work = int(count.sum())
            if work > CHUNK and root.numel() > 1:
                if most is None:
                    copies = _estimate(root, neighbors, num_hops, limit)
                    limit.check(copies, "about", "node copies")
                    ends = torch.stack([neighbors.node, neighbors.key // size])
                    component, parts_of = components(ends, neighbors.num_nodes)
                    most = counts_of(component, parts_of)[component[root]]
                parts = search.divide(most, neighbors, radix)
                if parts:
                    waiting += parts
                    continue
            last = search.hop == farthest
            waiting.append(search.step(start, count, work, neighbors, radix, last))
            limit.check(total + waiting[-1].seen.numel(), what="node copies")
            continue
        if search.frontier.numel() and radix <= farthest:
            told = f"a graph of {size:,} nodes is too large for {num_hops} hops"
            raise GraphError(f"{told}; use at most {radix - 1}.")
        found.append(search.seen)
        total += search.seen.numel()
        limit.check(total, what="node copies")
    return decoded(torch.cat(found) if len(found) > 1 else found[0], radix)


def egonets_of(
    root: Tensor,
    neighbors: Neighbors,
    num_hops: int,
    limit: CopyLimit,
    all_roots: bool = False,
    edges: bool = True,
) -> RootedSubgraphs:
    """Return the egonets of the roots, [s]; without edges if `edges` is False."""
    key, hop = reach(root, neighbors, num_hops, limit, all_roots)
    size, num_edges = neighbors.num_nodes, neighbors.edge.numel()
    subgraph, node = decoded(key, max(size, 1))
    if edges:
        ends, edge = induced_edges(node, subgraph, root.numel(), neighbors, limit)
    else:
        ends, edge = root.new_empty(2, 0), root.new_empty(0)
    found = RootedSubgraphs(root, node, subgraph, hop, ends, edge, size, num_edges)
    # Set what is known here or easily found, so that layers need not compute it.
    found.assume(hop_range=(0, num_hops))
    if not all_roots:
        return found
    root_key = torch.arange(0, size * (size + 1), size + 1, device=key.device)
    return found.assume(in_order=True, centroid=torch.searchsorted(key, root_key))


def _shortest(walks: Tensor, radix: int) -> Tensor:
    walks = sorted_values(walks)
    pair = walks // radix
    first = torch.ones_like(pair, dtype=torch.bool)
    torch.ne(pair[1:], pair[:-1], out=first[1:])
    return walks.masked_select(first)


def decoded(walks: Tensor, radix: int) -> tuple[Tensor, Tensor]:
    pair = walks // radix
    return pair, torch.sub(walks, pair, alpha=radix)


class _Search(NamedTuple):
    """State of a search; a pair of root number i and node v is `i * n + v`."""

    seen: Tensor
    """The pairs found so far, as `pair * radix + distance`; distances are < `radix`."""
    frontier: Tensor
    """The pairs found in the last step."""
    hop: int
    """The distance of the pairs that the next step finds."""

    def step(
        self,
        start: Tensor,
        count: Tensor,
        work: int,
        neighbors: Neighbors,
        radix: int,
        last: bool,
    ) -> "_Search":
        """Return the state after one step, which finds the frontier's neighbours."""
        size = neighbors.num_nodes
        row, entry = ragged_ranges(start, count, work)
        neighbor = neighbors.node.index_select(0, entry)
        first_of_root = self.frontier - self.frontier % size
        reached = first_of_root.index_select(0, row) + neighbor
        seen = _shortest(torch.cat([self.seen, reached * radix + self.hop]), radix)
        if last:
            return _Search(seen, seen[:0], self.hop + 1)
        pair, hop = decoded(seen, radix)
        return _Search(seen, pair.masked_select(hop == self.hop), self.hop + 1)

    def divide(self, most: Tensor, neighbors: Neighbors, radix: int) -> "list[_Search]":
        """Divide the roots into parts whose next steps follow about `CHUNK` edges each.

        Root i has `most[i]` nodes in its component; once all are found, its search
        ends. Returns the parts, those of the last roots first. The list is empty if no
        search ends and one part is enough.
        """
        size = neighbors.num_nodes
        num_found = counts_of(self.seen // (size * radix), most.numel())
        unfinished = (num_found < most).index_select(0, self.frontier // size)
        frontier = self.frontier[unfinished]
        roots = frontier // size
        work = neighbors.rows(frontier % size)[1]
        cuts = torch.tensor(chunk_cuts(work, CHUNK), dtype=torch.long, device="cpu")
        first_roots = roots.index_select(0, cuts.to(roots.device)).unique()
        first_roots = first_roots[first_roots > roots[:1]]
        if not first_roots.numel() and frontier.numel() == self.frontier.numel():
            return []
        frontier_cuts = torch.searchsorted(roots, first_roots).tolist()
        seen_cuts = torch.searchsorted(self.seen, first_roots * size * radix).tolist()
        seen = torch.tensor_split(self.seen, seen_cuts)
        parts = zip(seen, torch.tensor_split(frontier, frontier_cuts), strict=True)
        return [_Search(*part, self.hop) for part in parts][::-1]


def _estimate(
    root: Tensor, neighbors: Neighbors, num_hops: int, limit: CopyLimit
) -> float:
    walks = count_walks(neighbors, num_hops, neighbors.num_nodes)
    bound = float(walks.index_select(0, root).sum())
    if not limit.is_below(bound):
        return bound
    unlimited = CopyLimit(sys.maxsize, root.device)
    found = estimated_copies(
        root, lambda one: reach(one, neighbors, num_hops, unlimited)[0]
    )
    return min(bound, found)


def estimated_copies(root: Tensor, find: Callable[[Tensor], Tensor]) -> float:
    """Estimate the number of node copies, `len(find(root))`, from some of the roots."""
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(root.numel(), generator=generator, device="cpu")
    found = done = 0
    for number in order[:SAMPLE].to(root.device):
        found, done = found + find(root[number][None]).numel(), done + 1
        if found > CHUNK // 4:
            break
    return found / max(done, 1) * root.numel()


def count_walks(neighbors: Neighbors, num_hops: int, most: float) -> Tensor:
    """Count walks of up to `num_hops` steps to each node, [n], clamped to `most`."""
    size = neighbors.num_nodes
    target = neighbors.key // max(size, 1)
    walks = torch.ones(size, dtype=torch.double, device=target.device)
    total = walks.clone()
    for _ in range(min(num_hops, size)):
        before = walks.index_select(0, neighbors.node)
        walks = torch.zeros_like(total).index_add_(0, target, before).clamp_(max=most)
        total += walks
        if not bool((total < most).any()):
            break
    return total.clamp_(max=most)

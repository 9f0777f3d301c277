"""Structural encodings of nodes and of pairs (root, node), and how to extract them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from gnnak.errors import OptionError, SubgraphError
from gnnak.graphs.adjacency import components, incoming
from gnnak.graphs.ragged import chunk_cuts, counts_of, pointers, ragged_ranges
from gnnak.subgraphs.copy_limit import BYTES_PER_COPY, CopyLimit, check_free
from gnnak.subgraphs.extractors import Extractor, check_extractor, extract
from gnnak.subgraphs.induce import find_sorted
from gnnak.subgraphs.reach import egonets_of
from gnnak.subgraphs.rooted import Encoded, EncodingAxis, RootedSubgraphs, cached
from gnnak.subgraphs.whole import check_batch, graph_sizes, whole_graphs
from gnnak.typing import PairEncoding, check_choice, check_count


def encode_once(
    subgraphs: RootedSubgraphs,
    encoding: StructuralEncoding,
    axis: EncodingAxis,
    compute: Callable[[], Tensor],
) -> Tensor:
    """Return an encoding from the cache of `subgraphs`. At first use, compute it."""
    cache = subgraphs.derived.encodings
    return cached(cache, encoding, lambda: Encoded(axis, compute())).rows


def extracted_encodings(subgraphs: RootedSubgraphs) -> dict[Hashable, Encoded]:
    """Return the encodings that the extractor, not a model, has computed."""
    known = subgraphs.derived.encodings.items()
    return {encoding: found for encoding, found in known if found.extracted}


def root_mark(subgraphs: RootedSubgraphs) -> Tensor:
    """Return 1 for each node copy that is the root of its subgraph, else 0, [m]."""
    return (subgraphs.node == _roots(subgraphs)).long()


def short_distance(subgraphs: RootedSubgraphs, most: int) -> Tensor:
    r"""Return the distance of each node copy to its root, but at most `most`, [m].

    Args:
        subgraphs: The rooted subgraphs.
        most: Upper limit of the result. Node copies whose `hop` is -1 get this value.
    """
    hop = subgraphs.hop.clamp(max=most)
    return torch.where(hop < 0, most, hop)


def rrwp(
    subgraphs: RootedSubgraphs,
    edge_index: Tensor,
    batch: Tensor | None = None,
    num_steps: int = 20,
) -> Tensor:
    r"""Return relative random-walk probabilities (RRWP) of each node copy.

    $$P_{uv} = [I, M, M^2, \dots, M^{K}]_{uv}, \qquad M = D^{-1} A$$

    $(M^k)_{uv}$ is the probability that a random walk of $k$ steps from the root $u$
    ends at $v$. A walk follows edges backwards, from the receiver to the sender of
    messages, and runs in the whole graph, not only in the subgraph of $u$. A walk ends
    at a node without incoming edges, so rows of $M$ of such nodes are zero.

    Args:
        subgraphs: The rooted subgraphs, which cache the result.
        edge_index: Directed edges, [2, e].
        batch: The graph that each node is in, [n], sorted. None if there is only one.
        num_steps: Number of steps, $K$.

    Returns:
        Probabilities in float64, [m, num_steps + 1].
    """

    def compute() -> Tensor:
        size, parts = subgraphs.known_num_nodes, _parts(subgraphs, edge_index, batch)
        whole = _all_pairs(edge_index, size, parts)
        degree = counts_of(edge_index[1], size).double()
        step = (1 / degree).index_select(0, edge_index[1])
        place = _place(subgraphs, whole, parts)
        return _walks(whole, step, torch.zeros_like(degree), num_steps, place)

    key = StructuralEncoding("rrwp", num_steps)
    return encode_once(subgraphs, key, "copies", compute)


def closed_walks(
    subgraphs: RootedSubgraphs,
    edge_index: Tensor,
    batch: Tensor | None = None,
    num_steps: int = 10,
) -> Tensor:
    r"""Return the diagonals of the powers of the normalised adjacency matrix, [n, K].

    $$[\hat{A}_{uu}, (\hat{A}^2)_{uu}, \dots, (\hat{A}^K)_{uu}], \qquad
        \hat{A} = D^{-1/2} (A + I) D^{-1/2}$$

    These are the weights of the walks from node $u$ to itself, in float64. $D$ is the
    diagonal matrix of the in-degrees of $A + I$.

    Args:
        subgraphs: The rooted subgraphs, one per node, which cache the result.
        edge_index: Directed edges, [2, e].
        batch: The graph that each node is in, [n], sorted. None if there is only one.
        num_steps: Number of powers, $K$.
    """

    def compute() -> Tensor:
        size, parts = subgraphs.known_num_nodes, _parts(subgraphs, edge_index, batch)
        whole = _all_pairs(edge_index, size, parts)
        scale = (counts_of(edge_index[1], size).double() + 1).rsqrt()
        step = scale[edge_index[0]] * scale[edge_index[1]]
        return _walks(whole, step, scale.square(), num_steps, whole.centroid)[:, 1:]

    key = StructuralEncoding("closed-walks", num_steps)
    return encode_once(subgraphs, key, "nodes", compute)


def _parts(
    subgraphs: RootedSubgraphs, edge_index: Tensor, batch: Tensor | None
) -> Tensor:
    """Return `batch` or, if it is None, the number of each node's part, [n].

    A part is an interval of nodes that neither an edge nor a pair (root, node) leaves.
    So the graphs of a batch are encoded one by one even if `batch` is unknown.
    """
    root, size = _roots(subgraphs), subgraphs.known_num_nodes
    if batch is not None:
        return check_batch(batch, edge_index, size)
    joined = torch.cat([edge_index, torch.stack([root, subgraphs.node])], dim=1)
    begin, end = (counts_of(ends, size) for ends in (joined.amin(0), joined.amax(0)))
    is_last = ((begin - end).cumsum(0) == 0).long()
    return is_last.cumsum(0) - is_last


def _roots(subgraphs: RootedSubgraphs) -> Tensor:
    """Return the root of the subgraph of each node copy, [m]."""
    return subgraphs.root.index_select(0, subgraphs.subgraph)


def _all_pairs(edge_index: Tensor, num_nodes: int, batch: Tensor) -> RootedSubgraphs:
    nodes, edges = graph_sizes(batch, edge_index)
    needed = BYTES_PER_COPY * float((nodes.double() * (nodes + edges)).sum())
    what = f"random walks from all of {num_nodes:,} nodes, followed in the whole graph,"
    advice = "leave out the encoding of walks, or use smaller graphs or batches"
    check_free(needed, edge_index.device, what, advice)
    return whole_graphs(edge_index, num_nodes, batch, max_hops=0)


def _walks(
    whole: RootedSubgraphs, step: Tensor, stay: Tensor, steps: int, rows: Tensor
) -> Tensor:
    """Sum the weights of all walks from root to node for 0..`steps` steps, in float64.

    A step backwards along edge i has weight `step[i]`, and staying at node v has weight
    `stay[v]`. Returns sums for the node copies `rows` of `whole`, [rows, steps + 1].
    """
    what = f"the weights of walks of {steps} steps between {rows.numel():,} node pairs"
    advice = "lower num_steps or the nodes per batch, or use smaller subgraphs"
    check_free(8.0 * rows.numel() * (steps + 1), rows.device, what, advice)
    source, target = whole.edge_index
    weight, loop = step.index_select(0, whole.edge), stay.index_select(0, whole.node)
    now = (whole.hop == 0).double()
    found = now.new_empty(rows.numel(), steps + 1)
    found[:, 0] = now.index_select(0, rows)
    for number in range(1, steps + 1):
        moved = now.index_select(0, target) * weight
        now = (now * loop).index_add(0, source, moved)
        found[:, number] = now.index_select(0, rows)
    return found


def _place(subgraphs: RootedSubgraphs, whole: RootedSubgraphs, batch: Tensor) -> Tensor:
    """Return the index in `whole`, the whole graphs, of each node copy, [m]."""
    first = pointers(whole.sizes)[:-1] - first_nodes(batch)
    return first.index_select(0, _roots(subgraphs)) + subgraphs.node


def first_nodes(batch: Tensor) -> Tensor:
    """Return, for each node, the first node of its graph, [n]."""
    num_graphs = int(batch[-1]) + 1 if batch.numel() else 0
    return pointers(counts_of(batch, num_graphs)).index_select(0, batch)


PEAK_BYTES = 40
"""Peak memory of inverting a Laplacian, in bytes per entry: five float64 numbers."""
CHUNK_ENTRIES = 1 << 23
"""Laplacians that are inverted together have at most this many entries in total."""


def resistance(
    subgraphs: RootedSubgraphs, edge_index: Tensor, batch: Tensor | None = None
) -> Tensor:
    """Return the resistance distance of each node copy (a pair of root and node), [m].

    $$R_{uv} = L^+_{uu} + L^+_{vv} - 2 L^+_{uv}$$

    $L^+$ is the pseudoinverse of the Laplacian of the whole graph. Every edge is a
    conductor: an undirected edge, given in both directions, has conductance 1, and an
    edge in one direction 1/2. Pairs that no path joins get -1. The result is in
    float64. If the Laplacian of the largest graph does not fit into free memory,
    `SizeError` is raised.

    Args:
        subgraphs: The rooted subgraphs, which cache the result.
        edge_index: Directed edges, [2, e].
        batch: The graph that each node is in, [n], sorted. None if there is only one.
    """
    compute = partial(_resistance, subgraphs, edge_index, batch)
    return encode_once(subgraphs, StructuralEncoding("resistance"), "copies", compute)


def _resistance(
    subgraphs: RootedSubgraphs, edge_index: Tensor, batch: Tensor | None
) -> Tensor:
    size = subgraphs.known_num_nodes
    batch = _parts(subgraphs, edge_index, batch)
    root, node = _roots(subgraphs), subgraphs.node
    found = torch.zeros(node.numel(), dtype=torch.double, device=edge_index.device)
    local = torch.arange(size, device=batch.device) - first_nodes(batch)
    component, _ = components(edge_index, size)
    for number in _similar_sizes(batch):
        graph = number.index_select(0, batch)
        inside = (graph[edge_index[1]] >= 0).nonzero().flatten()
        edges = edge_index.index_select(1, inside)
        inverse = torch.linalg.inv(_regular_laplacian(edges, graph, local, component))
        copies = (graph[node] >= 0).nonzero().flatten()
        u, v = local[root[copies]], local[node[copies]]
        of, own = graph[node[copies]], inverse.diagonal(dim1=1, dim2=2)
        found[copies] = own[of, u] + own[of, v] - 2 * inverse[of, u, v]
    found = torch.where(root == node, 0.0, found)
    return torch.where(component[root] == component[node], found, -1.0)


def _similar_sizes(batch: Tensor) -> Iterator[Tensor]:
    """Divide the graphs into groups of similar size (within a factor of 2).

    Yields a tensor [g] per group: numbers 0, 1, ... for its graphs, -1 for all others.
    """
    if not batch.numel():
        return
    sizes = counts_of(batch, int(batch[-1]) + 1)
    largest = int(sizes.max())
    what = f"the resistance distances of a graph with {largest:,} nodes"
    advice = "leave out the encoding 'resistance', or divide the graph into parts"
    check_free(PEAK_BYTES * largest**2, batch.device, what, advice)
    group = sizes.double().log2().floor().masked_fill(sizes == 0, -1)
    for value in group[group >= 0].unique().tolist():
        inside = group == value
        place = inside.cumsum(0) - 1
        most = max(1, CHUNK_ENTRIES // int(sizes[inside].max()) ** 2)
        for first in range(0, int(inside.sum()), most):
            chosen = inside & (place >= first) & (place < first + most)
            yield torch.where(chosen, place - first, -1)


def _regular_laplacian(
    edge_index: Tensor, graph: Tensor, local: Tensor, component: Tensor
) -> Tensor:
    """Return an invertible Laplacian for each of some graphs, [graphs, size, size].

    If i and j are nodes of one connected component, of q nodes, 1 / q is added to the
    matrix element (i, j). Resistances stay the same, and no pseudoinverse is needed.
    `graph`, [n], has the graph of each node, or -1 to leave the node out. `local`, [n],
    has the number of each node in its graph. Matrices of smaller graphs are padded with
    1 on the diagonal.
    """
    nodes = (graph >= 0).nonzero().flatten()
    graphs, most = int(graph.max()) + 1, int(local[nodes].max()) + 1
    matrix = torch.zeros(graphs, most, most, dtype=torch.double, device=graph.device)
    source, target = edge_index
    half = matrix.new_full((source.numel(),), 0.5)
    for one, two in ((source, target), (target, source)):
        matrix.index_put_((graph[one], local[one], local[two]), half, accumulate=True)
    matrix = torch.diag_embed(matrix.sum(dim=2)) - matrix
    of = component.new_full((graphs, most), -1)
    of[graph[nodes], local[nodes]] = component[nodes]
    together = (of[:, :, None] == of[:, None, :]) & (of >= 0)[:, :, None]
    together = together.double()
    matrix = matrix + together / together.sum(dim=2, keepdim=True).clamp(min=1)
    return matrix + torch.diag_embed((of < 0).double())


TRIPLE_CHUNK = 1 << 22
"""`distance_counts` compares the distances of about this many triples at a time."""


def distance_counts(
    subgraphs: RootedSubgraphs,
    edge_index: Tensor,
    batch: Tensor | None = None,
    max_distance: int = 3,
) -> Tensor:
    r"""Count the nodes at each pair of distances to the root and to the node.

    $$C_{uv}[a, b] = |\{w : d(u, w) = a,\, d(v, w) = b\}|$$

    for the root $u$ and the node $v$ of a node copy. $d(u, w)$ is the length of the
    shortest path from $w$ to $u$ in the whole graph, not only in the subgraph of $u$.
    All distances above $D$ = `max_distance`, and missing paths, count as $D + 1$. There
    is no count for $a = b = D + 1$, so that nodes far from both do not matter. Counts
    are not normalised; next to hubs, they are large.

    Args:
        subgraphs: The rooted subgraphs, which cache the result.
        edge_index: Directed edges, [2, e].
        batch: Ignored, since nodes of other graphs are far from both.
        max_distance: The largest distance that is distinguished, $D$.

    Returns:
        Counts in float64, [m, (D + 2)^2 - 1]; $C_{uv}[a, b]$ is in column
        $a (D + 2) + b$.
    """
    compute = partial(_distance_counts, subgraphs, edge_index, max_distance)
    key = StructuralEncoding("distance-counts", max_distance=max_distance)
    return encode_once(subgraphs, key, "copies", compute)


def _distance_counts(
    subgraphs: RootedSubgraphs, edge_index: Tensor, most: int
) -> Tensor:
    size, far, base = subgraphs.known_num_nodes, most + 1, most + 2
    root, node = _roots(subgraphs), subgraphs.node
    what = f"the distance counts of {node.numel():,} node copies"
    advice = "lower max_distance or the nodes per batch, or use smaller subgraphs"
    check_free(16.0 * base**2 * node.numel(), node.device, what, advice)
    every, limit = torch.arange(size, device=node.device), CopyLimit(None, node.device)
    neighbors = incoming(edge_index, size)
    near = egonets_of(every, neighbors, most, limit, all_roots=True, edges=False)
    ptr, key = near.by("subgraph").ptr, near.subgraph * size + near.node
    rings = counts_of(near.subgraph * far + near.hop, size * far).view(size, far)
    found = near.hop.new_empty(node.numel(), base, base)
    work = ptr.diff().index_select(0, root)
    for first, stop in pairwise([0, *chunk_cuts(work, TRIPLE_CHUNK), node.numel()]):
        u, v = root[first:stop], node[first:stop]
        copy, entry = ragged_ranges(ptr.index_select(0, u), work[first:stop])
        w = near.node.index_select(0, entry)
        place, is_near = find_sorted(key, v.index_select(0, copy) * size + w)
        a = near.hop.index_select(0, entry)
        b = torch.where(is_near, near.hop[place], far)
        counts = counts_of((copy * base + a) * base + b, u.numel() * base**2)
        found[first:stop] = counts.view(-1, base, base)
    found[:, far, :far] = rings[node] - found[:, :far, :far].sum(dim=1)
    return found.flatten(1)[:, :-1].double()


StructuralName = Literal["rrwp", "resistance", "closed-walks", "distance-counts"]
KINDS: dict[StructuralName, tuple[Callable[..., Tensor], str | None]] = {
    "rrwp": (rrwp, "num_steps"),
    "resistance": (resistance, None),
    "closed-walks": (closed_walks, "num_steps"),
    "distance-counts": (distance_counts, "max_distance"),
}
"""Maps each encoding to its function and to the option that it reads."""
PART = "gnnak_part"
"""Attribute that marks an `edge_index` as part of a larger graph."""


@dataclass(frozen=True)
class StructuralEncoding:
    """A kind of structural encoding. Call it to compute the values for subgraphs.

    >>> StructuralEncoding("rrwp", num_steps=8)
    StructuralEncoding(name='rrwp', num_steps=8, max_distance=None)
    """

    name: StructuralName
    """The function that computes the values: "rrwp", "resistance", "closed-walks" or
    "distance-counts"."""
    num_steps: int | None = None
    """For "rrwp" and "closed-walks": number of steps of the walks. Otherwise None."""
    max_distance: int | None = None
    """For "distance-counts": the largest distance that is distinguished. Otherwise
    None."""

    def __post_init__(self) -> None:
        check_choice("a structural encoding", self.name, KINDS)
        for option in ("num_steps", "max_distance"):
            value = getattr(self, option)
            if option == KINDS[self.name][1]:
                check_count(option, value, least=1)
            elif value is not None:
                told = f"{option} is {value}, but {self.name!r} has no such option"
                raise OptionError(f"{told}; leave {option} out.")

    @property
    def options(self) -> dict[str, int]:
        """The option that the encoding reads, if any, as a keyword argument."""
        option = KINDS[self.name][1]
        return {} if option is None else {option: getattr(self, option)}

    @property
    def channels(self) -> int:
        """Number of columns of the encoding; one if it is a vector."""
        if self.num_steps is not None:
            return self.num_steps + (self.name == "rrwp")
        return 1 if self.max_distance is None else (self.max_distance + 2) ** 2 - 1

    def __call__(
        self,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Compute the encoding of all nodes or node copies; arguments as in `rrwp`."""
        if hasattr(edge_index, PART) and self not in subgraphs.derived.encodings:
            raise SubgraphError(
                f"the encoding {self.name} depends on the whole graph, but a batch of "
                "a RootLoader is a part of it; use a model without this encoding."
            )
        return KINDS[self.name][0](subgraphs, edge_index, batch, **self.options)


def structural_encodings(
    pairs: Sequence[PairEncoding], num_steps: int = 20, max_distance: int = 3
) -> tuple[StructuralEncoding, ...]:
    """Return the encodings among `pairs` that `WithEncodings` computes.

    >>> structural_encodings(("distance", "rrwp"))
    (StructuralEncoding(name='rrwp', num_steps=20, max_distance=None),)
    """
    known: dict[str, StructuralEncoding] = {
        "rrwp": StructuralEncoding("rrwp", num_steps),
        "resistance": StructuralEncoding("resistance"),
        "distance-counts": StructuralEncoding(
            "distance-counts", max_distance=max_distance
        ),
    }
    return tuple(known[name] for name in pairs if name in known)


@dataclass(frozen=True)
class WithEncodings:
    """Extract rooted subgraphs, and compute structural encodings of them.

    Models read the encodings from the subgraphs instead of computing them. Loaders that
    cache the subgraphs of a data set also cache the encodings. A model that computes
    encodings in its forward pass synchronises with the GPU. So its training steps can
    be captured as CUDA graphs only if a loader with this extractor has computed the
    encodings before.

    >>> from gnnak import EgoNets
    >>> extractor = WithEncodings(EgoNets(1), (StructuralEncoding("resistance"),))
    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> extractor(path, 3)
    RootedSubgraphs(subgraphs=3, node_copies=7, edge_copies=8, device='cpu')
    """

    extractor: Extractor
    encodings: tuple[StructuralEncoding, ...]

    reads_batch = True
    """Always True: a call needs `batch`, since encodings are computed per graph."""
    is_checked = True
    """Always True: `extract` has already checked the inner extractor's result."""

    def __post_init__(self) -> None:
        check_extractor("extractor", self.extractor)
        object.__setattr__(self, "encodings", tuple(self.encodings))
        for encoding in self.encodings:
            if not isinstance(encoding, StructuralEncoding):
                told = f"encodings has {encoding!r}; give StructuralEncoding objects"
                raise OptionError(f"{told}, such as StructuralEncoding('resistance').")

    @property
    def random(self) -> bool:
        """Whether two calls on the same graph can return different subgraphs."""
        return self.extractor.random

    @property
    def max_hops(self) -> int:
        """The largest possible distance of a node to the root of its subgraph."""
        return self.extractor.max_hops

    def __call__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        generator: torch.Generator | None = None,
        batch: Tensor | None = None,
        roots: Tensor | None = None,
    ) -> RootedSubgraphs:
        """Extract subgraphs and compute their encodings; arguments as in `extract`."""
        found = extract(self.extractor, edge_index, num_nodes, generator, batch, roots)
        for encoding in self.encodings:
            encoding(found, edge_index, batch)
        for key, values in found.derived.encodings.items():
            found.derived.encodings[key] = values._replace(extracted=True)
        return found


def without_encodings(extractor: Extractor) -> Extractor:
    """Return the extractor inside `WithEncodings`, or another extractor unchanged."""
    while isinstance(extractor, WithEncodings):
        extractor = extractor.extractor
    return extractor

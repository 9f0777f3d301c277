"""Structural encodings of nodes and of pairs (root, node), and their extractor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from gnnak.errors import OptionError
from gnnak.graphs.adjacency import components
from gnnak.graphs.ragged import counts_of, pointers
from gnnak.subgraphs.copy_limit import BYTES_PER_COPY, check_free
from gnnak.subgraphs.extractors import Extractor, check_extractor, extract
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.whole import (
    check_batch,
    count_copies,
    graph_sizes,
    whole_graphs,
)
from gnnak.typing import check_choice, check_count

EncodingAxis = Literal["nodes", "copies"]
"""What an encoding has one row for: the nodes of the graph, or the node copies (a node
copy is a node as it occurs in one rooted subgraph)."""


class Encoded(NamedTuple):
    """The values of a structural encoding for all rooted subgraphs of a batch."""

    axis: EncodingAxis
    """What the rows stand for: nodes of the graph, or node copies."""
    rows: Tensor
    """The values, [n, ...] or [m, ...], for n nodes or m node copies."""
    extracted: bool = False
    """Whether the extractor computed the encoding, and not a model. All batches of a
    loader then have it, which captured training steps rely on."""

    def at(self, rows: Tensor) -> Encoded:
        """Return the encoding of some nodes or node copies, given by number."""
        return self._replace(rows=self.rows.index_select(0, rows))


def encode_once(
    subgraphs: RootedSubgraphs,
    name: str,
    axis: EncodingAxis,
    compute: Callable[[], Tensor],
) -> Tensor:
    """Return a structural encoding; compute it at first use, and cache it.

    Args:
        subgraphs: The rooted subgraphs, which have the cache.
        name: Name of the encoding, with its options.
        axis: What the encoding has rows for.
        compute: Returns the values.
    """
    key = f"encoding {name}"
    return subgraphs.once(key, lambda: Encoded(axis, compute())).rows


def mark_extracted(subgraphs: RootedSubgraphs) -> None:
    """Declare that the extractor has computed all structural encodings so far."""
    encodings = _cached(subgraphs).items()
    subgraphs.assume(**{key: each._replace(extracted=True) for key, each in encodings})


def extracted_encodings(subgraphs: RootedSubgraphs) -> dict[str, Encoded]:
    """Return the structural encodings that the extractor of the subgraphs computed.

    Whoever splits, pads or samples the subgraphs does the same with these encodings.
    The keys are names in the cache: `RootedSubgraphs.assume` takes the result as
    keyword arguments.
    """
    return {key: each for key, each in _cached(subgraphs).items() if each.extracted}


def _cached(subgraphs: RootedSubgraphs) -> dict[str, Encoded]:
    """Return all cached structural encodings, by their names in the cache."""
    derived = getattr(subgraphs, "_derived", {})
    return {key: value for key, value in derived.items() if isinstance(value, Encoded)}


def root_mark(subgraphs: RootedSubgraphs) -> Tensor:
    """Return 1 for the node copy that is the root of its subgraph, else 0, [m]."""
    root = subgraphs.root.index_select(0, subgraphs.subgraph)
    return (subgraphs.node == root).long()


def short_distance(subgraphs: RootedSubgraphs, most: int) -> Tensor:
    r"""Return the distance $\min(d(u, v), \text{most})$ of each node copy, [m].

    Node copies without a known distance (`hop` is -1) get `most`, too.

    Args:
        subgraphs: The rooted subgraphs.
        most: The largest number in the result.
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
    at a node without incoming edges, so rows of $M$ of such nodes are zero. Cached
    after first use.

    Args:
        subgraphs: The rooted subgraphs.
        edge_index: Directed edges, [2, e].
        batch: Index of the graph that each node is in, [n], sorted; None = all nodes
            are in one graph.
        num_steps: Number of steps, $K$.

    Returns:
        Probabilities in float64, [m, num_steps + 1].
    """

    def compute() -> Tensor:
        size = subgraphs.known_num_nodes
        whole = _all_pairs(edge_index, size, batch)
        degree = counts_of(edge_index[1], size).double()
        step = (1 / degree).index_select(0, edge_index[1])
        place = _place(subgraphs, whole, batch)
        return _walks(whole, step, torch.zeros_like(degree), num_steps, place)

    return encode_once(subgraphs, f"rrwp {num_steps}", "copies", compute)


def closed_walks(
    subgraphs: RootedSubgraphs,
    edge_index: Tensor,
    batch: Tensor | None = None,
    num_steps: int = 10,
) -> Tensor:
    r"""Return the diagonals of the powers of the normalised adjacency matrix, [n, K].

    $$[\hat{A}_{uu}, (\hat{A}^2)_{uu}, \dots, (\hat{A}^K)_{uu}], \qquad
        \hat{A} = D^{-1/2} (A + I) D^{-1/2}$$

    These are the weights of the walks from node $u$ to itself. $D$ has the in-degrees
    of $A + I$. The result is in float64 and cached after first use.

    Args:
        subgraphs: The rooted subgraphs, one per node; only used for the cache.
        edge_index: Directed edges, [2, e].
        batch: Index of the graph that each node is in, [n], sorted; None = all nodes
            are in one graph.
        num_steps: Number of powers, $K$.
    """

    def compute() -> Tensor:
        size = subgraphs.known_num_nodes
        whole = _all_pairs(edge_index, size, batch)
        scale = (counts_of(edge_index[1], size).double() + 1).rsqrt()
        step = scale[edge_index[0]] * scale[edge_index[1]]
        walks = _walks(whole, step, scale.square(), num_steps, whole.centroid)
        return walks[:, 1:]

    return encode_once(subgraphs, f"closed walks {num_steps}", "nodes", compute)


def _all_pairs(
    edge_index: Tensor, num_nodes: int, batch: Tensor | None
) -> RootedSubgraphs:
    """Return the whole graph of every node; raise `SizeError` if they are too large."""
    batch = check_batch(batch, edge_index, num_nodes)
    check_free(
        BYTES_PER_COPY * count_copies(*graph_sizes(batch, edge_index)),
        edge_index.device,
        f"random walks from every node of {num_nodes:,} nodes, which are followed in "
        "the whole graph,",
        "leave out the encoding of walks, or use smaller graphs or batches",
    )
    return whole_graphs(edge_index, num_nodes, batch, max_hops=0)


def _walks(
    whole: RootedSubgraphs, step: Tensor, stay: Tensor, steps: int, rows: Tensor
) -> Tensor:
    """Sum the weights of all walks from roots to nodes, by number of steps.

    Args:
        whole: The whole graph of every node.
        step: Weight of a step backwards along each edge, [e].
        stay: Weight of a step from each node to itself, [n].
        steps: Largest number of steps.
        rows: The node copies of `whole` (pairs of root and node) that are wanted.

    Returns:
        The weights in float64, [rows, steps + 1], one column per number of steps.
    """
    check_free(
        8.0 * rows.numel() * (steps + 1),
        rows.device,
        f"the weights of walks of {steps} steps between {rows.numel():,} node pairs",
        "lower num_steps or the number of nodes per batch, or use smaller subgraphs",
    )
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


def _place(
    subgraphs: RootedSubgraphs, whole: RootedSubgraphs, batch: Tensor | None
) -> Tensor:
    """Return the position of each node copy of `subgraphs` in `whole`, [m]."""
    root = subgraphs.root.index_select(0, subgraphs.subgraph)
    sizes = whole.sizes
    first_copy = pointers(sizes)[:-1]
    if batch is None:
        return first_copy.index_select(0, root) + subgraphs.node
    first_node = first_nodes(batch)
    return (first_copy - first_node).index_select(0, root) + subgraphs.node


def first_nodes(batch: Tensor) -> Tensor:
    """Return the first node of the graph that each node is in, [n]."""
    num_graphs = int(batch[-1]) + 1 if batch.numel() else 0
    return pointers(counts_of(batch, num_graphs)).index_select(0, batch)


PEAK_BYTES = 40
"""Memory in bytes that inverting a Laplacian takes at its peak, per entry of the
matrix: up to five matrices in float64."""
CHUNK_ENTRIES = 1 << 23
"""Laplacians of several graphs are inverted together if they have at most this many
entries together."""


def resistance(
    subgraphs: RootedSubgraphs, edge_index: Tensor, batch: Tensor | None = None
) -> Tensor:
    r"""Return the resistance distance of each node copy (a pair of root and node), [m].

    $$R_{uv} = L^+_{uu} + L^+_{vv} - 2 L^+_{uv}$$

    $L^+$ is the pseudoinverse of the Laplacian of the whole graph. Every edge is a
    conductor: an undirected edge, given in both directions, has conductance 1, and an
    edge in one direction 1/2. Pairs that no path joins get -1. The result is in float64
    and cached after first use.

    Args:
        subgraphs: The rooted subgraphs.
        edge_index: Directed edges, [2, e].
        batch: Index of the graph that each node is in, [n], sorted; None = all nodes
            are in one graph.

    Raises:
        SizeError: If the Laplacian of the largest graph does not fit into free memory.
    """

    def compute() -> Tensor:
        return _resistance(subgraphs, edge_index, batch)

    return encode_once(subgraphs, "resistance", "copies", compute)


def _resistance(
    subgraphs: RootedSubgraphs, edge_index: Tensor, batch: Tensor | None
) -> Tensor:
    size = subgraphs.known_num_nodes
    if batch is None:
        batch = edge_index.new_zeros(size)
    root, node = subgraphs.root.index_select(0, subgraphs.subgraph), subgraphs.node
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
    """Divide the graphs of a batch into groups of similar size.

    The largest graph of a group has less than twice as many nodes as the smallest, so
    that padding to a common size takes little memory. The Laplacians of a group have at
    most `CHUNK_ENTRIES` entries, unless there is only one.

    Args:
        batch: Index of the graph that each of n nodes is in, [n], sorted.

    Yields:
        For each of the g graphs, its number within the group; -1 if it is not in the
        group, [g].
    """
    if not batch.numel():
        return
    sizes = counts_of(batch, int(batch[-1]) + 1)
    _check_memory(int(sizes.max()), batch.device)
    group = sizes.double().log2().floor().masked_fill(sizes == 0, -1)
    for value in group.unique().tolist():
        if value < 0:
            continue
        inside = group == value
        place = inside.cumsum(0) - 1
        most = max(1, CHUNK_ENTRIES // int(sizes[inside].max()) ** 2)
        for first in range(0, int(inside.sum()), most):
            chosen = inside & (place >= first) & (place < first + most)
            yield torch.where(chosen, place - first, -1)


def _check_memory(num_nodes: int, device: torch.device) -> None:
    """Raise `SizeError` if the Laplacian of one graph is too large to be inverted."""
    check_free(
        PEAK_BYTES * num_nodes**2,
        device,
        f"the resistance distances of a graph with {num_nodes:,} nodes",
        "leave out the encoding 'resistance', or divide the graph into smaller ones",
    )


def _regular_laplacian(
    edge_index: Tensor, graph: Tensor, local: Tensor, component: Tensor
) -> Tensor:
    """Return the Laplacian of some graphs plus a matrix that makes it invertible.

    The entry of two nodes in the same connected component of k nodes is raised by 1/k.
    The inverse of the sum gives the same resistances as the pseudoinverse of the
    Laplacian, but is faster and needs no threshold for small eigenvalues.

    Args:
        edge_index: Directed edges of these graphs, [2, edges].
        graph: Number of the graph that each node is in, [n]; -1 if the Laplacian of its
            graph is not wanted.
        local: Number of each node within its graph, [n].
        component: Connected component of each node, [n].

    Returns:
        One matrix in float64 for each of g graphs, padded by ones on the diagonal to
        the number of nodes of the largest graph, [g, most, most].
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


StructuralName = Literal["rrwp", "resistance", "closed-walks"]
FUNCTIONS = {"rrwp": rrwp, "resistance": resistance, "closed-walks": closed_walks}
"""The functions that compute structural encodings, by name."""


@dataclass(frozen=True)
class StructuralEncoding:
    """A structural encoding by name, with its option.

    >>> StructuralEncoding("rrwp", num_steps=8)
    StructuralEncoding(name='rrwp', num_steps=8)
    """

    name: StructuralName
    """The function that computes the encoding: `rrwp`, `resistance` or `closed_walks`
    of `gnnak.subgraphs`."""
    num_steps: int | None = None
    """Number of steps of the walks; None for `resistance`, which has no steps."""

    def __post_init__(self) -> None:
        check_choice("a structural encoding", self.name, FUNCTIONS)
        if self.name != "resistance":
            check_count("num_steps", self.num_steps, least=1)
        elif self.num_steps is not None:
            raise OptionError(
                f"num_steps is {self.num_steps}, but resistance distances have no "
                "steps; leave num_steps out."
            )

    def __call__(
        self,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Return the encoding of all node copies or nodes; cached after first use.

        Args:
            subgraphs: The rooted subgraphs.
            edge_index: Directed edges, [2, e].
            batch: Index of the graph that each node is in, [n], sorted; None = all
                nodes are in one graph.
        """
        options = {} if self.num_steps is None else {"num_steps": self.num_steps}
        return FUNCTIONS[self.name](subgraphs, edge_index, batch, **options)


@dataclass(frozen=True)
class WithEncodings:
    """Extract rooted subgraphs, and compute structural encodings of them.

    Models find the encodings in the subgraphs and do not compute them again. Loaders
    that cache the subgraphs of a data set also cache the encodings. On a GPU, a model
    that computes such encodings in its forward pass synchronises with the device, so
    its training steps can be captured as CUDA graphs only if a loader with this
    extractor has computed the encodings before.

    >>> from gnnak import EgoNets
    >>> extractor = WithEncodings(EgoNets(1), (StructuralEncoding("resistance"),))
    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> extractor(path, 3)
    RootedSubgraphs(subgraphs=3, node_copies=7, edge_copies=8, device='cpu')
    """

    extractor: Extractor
    """Extracts the subgraphs."""
    encodings: tuple[StructuralEncoding, ...]
    """The structural encodings to compute."""

    reads_batch = True
    """Always True: encodings are computed per graph."""
    is_checked = True
    """Always True: `extract` has checked the subgraphs when they were extracted."""

    def __post_init__(self) -> None:
        check_extractor("extractor", self.extractor)
        object.__setattr__(self, "encodings", tuple(self.encodings))
        for encoding in self.encodings:
            if not isinstance(encoding, StructuralEncoding):
                raise OptionError(
                    f"encodings has {encoding!r}; give StructuralEncoding objects, "
                    "such as StructuralEncoding('resistance')."
                )

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
    ) -> RootedSubgraphs:
        """Return one rooted subgraph per node; arguments as in `extract`."""
        found = extract(self.extractor, edge_index, num_nodes, generator, batch)
        for encoding in self.encodings:
            encoding(found, edge_index, batch)
        mark_extracted(found)
        return found


def with_encodings(
    extractor: Extractor, encodings: tuple[StructuralEncoding, ...]
) -> Extractor:
    """Return an extractor that also computes the given encodings.

    If `encodings` is empty, this is `extractor` itself.
    """
    return WithEncodings(extractor, encodings) if encodings else extractor


def without_encodings(extractor: Extractor) -> Extractor:
    """Return the extractor of the subgraphs alone, without structural encodings."""
    while isinstance(extractor, WithEncodings):
        extractor = extractor.extractor
    return extractor

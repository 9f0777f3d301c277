"""Encodings of pairs (root, node): one row of numbers for each node copy of a batch.

A node copy is a node as it occurs in one rooted subgraph, that is, a pair of a root $u$
and a node $v$. The encodings depend on the graph alone; learned tables and Linears turn
them into states (see `gnnak.nn.pairs`).
"""

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of, pointers
from gnnak.subgraphs.copy_limit import BYTES_PER_COPY
from gnnak.subgraphs.encodings import encode_once
from gnnak.subgraphs.free_memory import check_free
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.whole import (
    check_batch,
    count_copies,
    graph_sizes,
    whole_graphs,
)


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

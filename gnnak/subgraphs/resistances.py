"""Resistance distances between roots and nodes, for whole batches."""

from collections.abc import Iterator

import torch
from torch import Tensor

from gnnak.graphs.components import components
from gnnak.graphs.ragged import counts_of
from gnnak.subgraphs.encodings import encode_once
from gnnak.subgraphs.free_memory import check_free
from gnnak.subgraphs.pairs import first_nodes
from gnnak.subgraphs.rooted import RootedSubgraphs

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

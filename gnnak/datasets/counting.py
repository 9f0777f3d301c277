"""Count small substructures, such as triangles: the targets of the counting task."""

from typing import Literal, get_args

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs import GraphStore
from gnnak.graphs.ragged import pointers
from gnnak.typing import check_choice

Substructure = Literal["triangle", "tailed-triangle", "star", "4-cycle"]
SUBSTRUCTURES: tuple[Substructure, ...] = get_args(Substructure)
MAX_NODES = 512


def count_substructures(store: GraphStore, substructure: Substructure) -> Tensor:
    r"""Count one substructure in every graph; return the counts, [g], float64.

    With $A$ the adjacency matrix and $d_i$ the degree of node $i$, the counts are:

    - `triangle`: $\text{tr}\,A^3 / 6$.
    - `tailed-triangle`: $\sum_i (A^3)_{ii} / 2 \cdot (d_i - 2)$.
    - `star`, with three leaves: $\sum_i \binom{d_i}{3}$.
    - `4-cycle`: $(\text{tr}\,A^4 + \text{tr}\,A^2 - 2 \sum_{ij} (A^2)_{ij}) / 8$.

    Args:
        store: Simple undirected graphs of at most `MAX_NODES` nodes.
        substructure: The substructure to count.

    >>> from gnnak.graphs import parse_graph6
    >>> clique = parse_graph6("C~")
    >>> [int(count_substructures(clique, name)) for name in SUBSTRUCTURES]
    [4, 12, 4, 3]
    """
    check_choice("substructure", substructure, SUBSTRUCTURES)
    counts = [
        _count(adjacency(store, first, min(first + 512, len(store))), substructure)
        for first in range(0, len(store), 512)
    ]
    none = torch.zeros(0, dtype=torch.double, device=store.device)
    return torch.cat([none, *counts])


def adjacency(store: GraphStore, first: int, last: int) -> Tensor:
    """Return the dense adjacency matrices of graphs `first` to `last - 1`, zero-padded.

    Returns:
        [g, n, n], float64: g is the number of these graphs, and n the number of nodes
        of the largest one.

    Raises:
        GraphError: If a graph has more than `MAX_NODES` nodes, or is not a simple
            undirected graph.
    """
    largest = int(store.num_nodes[first:last].max())
    if largest > MAX_NODES:
        raise GraphError(f"a graph has {largest} nodes; give at most {MAX_NODES}.")
    ptr = pointers(store.num_edges)
    edges = store.edge_index[:, ptr[first] : ptr[last]]
    graph = torch.arange(last - first, device=store.device)
    graph = graph.repeat_interleave(store.num_edges[first:last])
    dense = torch.zeros(
        last - first, largest, largest, dtype=torch.double, device=store.device
    )
    dense.index_put_((graph, *edges), dense.new_ones(1), accumulate=True)
    loops = dense.diagonal(dim1=1, dim2=2).any()
    if loops or (dense > 1).any() or not torch.equal(dense, dense.transpose(1, 2)):
        raise GraphError(
            "a graph is directed or has a self loop or a parallel edge; give simple "
            "undirected graphs."
        )
    return dense


def _count(adjacency: Tensor, substructure: Substructure) -> Tensor:
    """Count one substructure in each graph, given the padded adjacency matrices."""
    degree = adjacency.sum(dim=2)
    if substructure == "star":
        return (degree * (degree - 1) * (degree - 2)).sum(dim=1) / 6
    square = adjacency @ adjacency
    if substructure == "4-cycle":
        closed = (square * square).sum(dim=(1, 2))
        back = square.diagonal(dim1=1, dim2=2).sum(dim=1)
        return (closed + back - 2 * square.sum(dim=(1, 2))) / 8
    around = (square * adjacency).sum(dim=2)
    if substructure == "triangle":
        return around.sum(dim=1) / 6
    return (around / 2 * (degree - 2)).sum(dim=1)

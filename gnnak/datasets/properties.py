"""Compute properties of graphs, such as the diameter, that a model is to predict."""

from typing import Literal, get_args

import torch
from torch import Tensor

from gnnak.datasets.counting import adjacency
from gnnak.graphs import GraphStore
from gnnak.typing import check_choice

Property = Literal[
    "connected", "connected-legacy", "diameter", "radius", "spectral-radius"
]
PROPERTIES: tuple[Property, ...] = get_args(Property)
CHUNK = 512


def graph_property(store: GraphStore, name: Property) -> Tensor:
    r"""Compute one property of every graph; return the values, [g], float64.

    With $A$ the adjacency matrix, $d(i, j)$ the distance of two nodes in the same
    component, and $e(i) = \max_j d(i, j)$ the eccentricity of node $i$:

    - `connected`: 1 if the graph is connected, else 0.
    - `connected-legacy`: 1 if $A^{2^k}$ has no zero, else 0, where $2^k \ge 2n$ for n
      nodes. This is the published label, but it is wrong: even powers of the adjacency
      matrix of a bipartite graph always have zeros, so connected bipartite graphs get
      label 0.
    - `diameter`: $\max_i e(i)$; for a disconnected graph the largest diameter of its
      components, as published.
    - `radius`: $\min_i e(i)$; for a disconnected graph the smallest radius of its
      components.
    - `spectral-radius`: the largest eigenvalue of $A$. The published data call this
      number the radius.

    Args:
        store: Simple undirected graphs of at most `counting.MAX_NODES` nodes.
        name: Name of the property.

    >>> from gnnak.graphs import parse_graph6
    >>> path = parse_graph6("CU")  # 4 nodes
    >>> [round(float(graph_property(path, name)), 3) for name in PROPERTIES]
    [1.0, 0.0, 3.0, 2.0, 1.618]
    """
    check_choice("property", name, PROPERTIES)
    found = [torch.zeros(0, dtype=torch.double)]
    for first in range(0, len(store), CHUNK):
        last = min(first + CHUNK, len(store))
        matrix = adjacency(store, first, last)
        real = torch.arange(matrix.size(1)) < store.num_nodes[first:last, None]
        found.append(_property(matrix, real, name).double())
    return torch.cat(found)


def _property(matrix: Tensor, real: Tensor, name: Property) -> Tensor:
    """Compute one property of each graph from padded adjacency matrices.

    `real` [g, n] is True for nodes and False for padding.
    """
    if name == "spectral-radius":
        return torch.linalg.eigvalsh(matrix).amax(dim=1)
    both = real[:, :, None] & real[:, None, :]
    if name == "connected-legacy":
        power = matrix
        for _ in range(1 + (matrix.size(1) - 1).bit_length()):
            power = (power @ power).clamp(max=1)
        return ((power > 0) | ~both).all(dim=2).all(dim=1)
    hops = _distances(matrix)
    if name == "connected":
        return ((hops >= 0) | ~both).all(dim=2).all(dim=1)
    eccentricity = hops.amax(dim=2)
    if name == "diameter":
        return eccentricity.masked_fill(~real, 0).amax(dim=1)
    return eccentricity.masked_fill(~real, matrix.size(1)).amin(dim=1)


def _distances(matrix: Tensor) -> Tensor:
    """Return the distances of all pairs of nodes; -1 for pairs without a path."""
    size = matrix.size(1)
    reached = torch.eye(size, dtype=matrix.dtype).expand_as(matrix)
    hops = torch.where(reached > 0, 0, -1)
    for distance in range(1, size):
        reached = ((reached @ matrix + reached) > 0).to(matrix.dtype)
        new = (reached > 0) & (hops < 0)
        if not new.any():
            break
        hops = hops.masked_fill(new, distance)
    return hops

"""Circulant graphs: nodes on a cycle, each joined to the nodes at fixed distances.

1-WL, 2-WL and 3-WL are Weisfeiler-Leman (WL) tests.
"""

from collections.abc import Iterable, Sequence
from math import gcd

from gnnak.errors import OptionError
from gnnak.graphs.named import Graph, undirected

CSL_SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
"""Skips of the ten graphs of the data set CSL (circular skip links). In the graph with
skip s, node i is joined to the nodes i ± 1 and i ± s. No two of the graphs are
isomorphic."""


def circulant(num_nodes: int, steps: Iterable[int]) -> Graph:
    """Build a circulant graph: `i` is joined to `(i + step) % num_nodes` for each step.

    All nodes look the same, so 1-WL gives all of them the same colour.

    >>> edge_index, num_nodes = circulant(5, [1, 2])
    >>> edge_index.size(1), num_nodes
    (20, 5)
    """
    edges = {
        (min(node, other), max(node, other))
        for step in steps
        for node in range(num_nodes)
        if node != (other := (node + step) % num_nodes)
    }
    return undirected(sorted(edges), num_nodes)


def csl(num_nodes: int = 41, skips: Sequence[int] = CSL_SKIPS) -> list[Graph]:
    """Build circular skip link (CSL) graphs, one for each of `skips`.

    A CSL graph is the circulant graph with steps 1 and `skip`. All CSL graphs are
    4-regular, so neither 1-WL nor 2-WL distinguishes any two of them. The ten default
    graphs on 41 nodes are pairwise non-isomorphic, and 3-WL distinguishes all of them.
    The paper's Subgraph-1-WL* with 1-hop egonets can only detect triangles, which only
    the graph with skip 2 has; all other pairs need larger egonets.

    Args:
        num_nodes: Number of nodes of each graph.
        skips: The skips; each must be coprime to `num_nodes`, and in 2..num_nodes-2.
    """
    for skip in skips:
        if not 2 <= skip < num_nodes - 1 or gcd(skip, num_nodes) != 1:
            raise OptionError(
                f"skip is {skip}; give a number between 2 and {num_nodes - 2} that "
                f"is coprime to num_nodes = {num_nodes}."
            )
    return [circulant(num_nodes, [1, skip]) for skip in skips]

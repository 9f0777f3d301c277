"""Circulant graphs: nodes on a cycle, each joined to the nodes at fixed distances.

The Weisfeiler-Leman (WL) tests 1-WL and 2-WL cannot distinguish two such graphs with
the same number of nodes and the same degree.
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

    The graph is regular, so the Weisfeiler-Leman test 1-WL gives all nodes the same
    colour.

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

    In the CSL graph with skip s, node i is joined to the nodes i ± 1 and i ± s. All CSL
    graphs are 4-regular, so the Weisfeiler-Leman (WL) tests 1-WL and 2-WL distinguish
    no two of them. The ten default graphs on 41 nodes are pairwise non-isomorphic, and
    3-WL distinguishes all of them. The paper's test Subgraph-1-WL*, which compares
    egonets by 1-WL, can only detect triangles if it uses 1-hop egonets. Only the graph
    with skip 2 has triangles; to distinguish the others, the test needs larger egonets.

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

"""Circulant graphs: the nodes of a cycle, each joined to those some steps away."""

from collections.abc import Iterable, Sequence
from math import gcd

from gnnak.errors import OptionError
from gnnak.graphs.named import Graph, undirected

CSL_SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
"""Skips of the ten graphs on 41 nodes, one of each isomorphism class."""


def circulant(num_nodes: int, steps: Iterable[int]) -> Graph:
    """Join every node to the nodes `step` farther on, for each of `steps`.

    Vertex-transitive, so all nodes look alike and 1-WL gives them one colour.

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
    """Circular skip links: a cycle, and a second one that skips `skip` nodes a step.

    All are 4-regular: 1-WL (and 2-WL) tells no pair apart. The ten default graphs on
    41 nodes are pairwise non-isomorphic; 3-WL tells all of them apart. Subgraph-1-WL*
    with 1-hop egonets only sees triangles, which skip 2 alone has; its other pairs need
    larger egonets.
    """
    for skip in skips:
        if not 2 <= skip < num_nodes - 1 or gcd(skip, num_nodes) != 1:
            raise OptionError(
                f"skip is {skip}; give a number between 2 and {num_nodes - 2} without "
                f"a common divisor with num_nodes = {num_nodes}."
            )
    return [circulant(num_nodes, [1, skip]) for skip in skips]

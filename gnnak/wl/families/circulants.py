"""Generate all circulant graphs of one size, one per isomorphism class."""

from itertools import combinations
from math import gcd

from gnnak.graphs.families import Graph, circulant
from gnnak.wl.families.unlike import unlike


def circulants(num_nodes: int, num_steps: int = 2) -> list[Graph]:
    """Return all connected circulant graphs with `num_steps` steps, up to isomorphism.

    In a circulant graph, node i is adjacent to the nodes i ± s (modulo `num_nodes`) for
    each step s. All steps are below `num_nodes / 2`, so all graphs are regular of
    degree `2 * num_steps`, and 1-WL (Weisfeiler-Leman) distinguishes no pair of them.

    >>> len(circulants(13))
    3
    """
    steps = range(1, (num_nodes + 1) // 2)
    sets = [s for s in combinations(steps, num_steps) if gcd(num_nodes, *s) == 1]
    return unlike([circulant(num_nodes, s) for s in sets])

"""All circulant graphs of one size, one of each isomorphism class."""

from itertools import combinations
from math import gcd

from gnnak.graphs.families import circulant
from gnnak.graphs.named import Graph
from gnnak.wl.families.unlike import unlike


def circulants(num_nodes: int, num_steps: int = 2) -> list[Graph]:
    """All connected circulant graphs with `num_steps` steps, one of each class.

    With `num_steps` below half of the nodes all are regular of the same degree, so 1-WL
    tells no pair apart.

    >>> len(circulants(13))
    3
    """
    steps = range(1, (num_nodes + 1) // 2)
    sets = [s for s in combinations(steps, num_steps) if gcd(num_nodes, *s) == 1]
    return unlike([circulant(num_nodes, s) for s in sets])

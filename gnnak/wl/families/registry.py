"""Build families of graphs by name.

A family is a list of groups of graphs. No two graphs of a group are isomorphic, but
they are hard to distinguish by Weisfeiler-Leman (WL) tests.
"""

from collections.abc import Callable
from itertools import combinations

import networkx as nx

from gnnak.graphs.families import (
    Graph,
    cfi_pair,
    csl,
    four_regular_pair,
    srg16,
    srg25,
    srg26,
    srg28,
)
from gnnak.typing import check_choice
from gnnak.wl.families.circulants import circulants
from gnnak.wl.families.separating import SEPARATIONS
from gnnak.wl.families.small import (
    connected_graphs,
    cycle_and_two,
    regular_pair,
    trees,
)

Groups = list[list[Graph]]
"""A family of graphs: a list of groups, each a list of graphs. No two graphs of a group
are isomorphic, so an ideal test distinguishes them. Graphs of different groups are not
compared."""

_REGULAR = ((10, 3), (12, 3), (14, 3), (16, 3), (10, 4), (12, 4), (14, 4), (16, 4))
"""The number of nodes and the degree, for each pair of random regular graphs."""


def _cfi(base: Callable[[], nx.Graph]) -> Callable[[], Groups]:
    """Return a function that builds a family of one CFI pair, from a base graph."""
    return lambda: [list(cfi_pair(base()))]


FAMILIES: dict[str, Callable[[], Groups]] = {
    "four-regular": lambda: [list(four_regular_pair())],
    "cycles": lambda: [list(cycle_and_two(n)) for n in range(6, 16)],
    "trees": lambda: [trees(n) for n in range(4, 11)],
    "regular": lambda: [list(regular_pair(n, d, seed=n)) for n, d in _REGULAR],
    "circulant": lambda: [circulants(n) for n in range(8, 17)],
    "csl": lambda: [csl()],
    "srg16": lambda: [srg16()],
    "srg25": lambda: [srg25()],
    "srg26": lambda: [srg26()],
    "srg28": lambda: [srg28()],
    "cfi-k4": _cfi(lambda: nx.complete_graph(4)),
    "cfi-petersen": _cfi(nx.petersen_graph),
    "cfi-heawood": _cfi(nx.heawood_graph),
    "cfi-dodecahedron": _cfi(nx.dodecahedral_graph),
    "separating": lambda: [list(row.pair()) for row in SEPARATIONS],
    "connected": lambda: [connected_graphs(n) for n in range(1, 8)],
}
"""Maps the name of each family of graphs to a function that builds the family. The
docstrings of the graph generators say which tests distinguish the graphs."""


def family(name: str) -> Groups:
    """Build a family of graphs: a list of groups, each a list of graphs.

    No two graphs of a group are isomorphic, but they are hard to distinguish by
    Weisfeiler-Leman (WL) tests. Graphs of different groups are not compared.

    Args:
        name: Name of the family, a key of `FAMILIES`.

    The family srg16 has one group, which consists of two graphs:

    >>> [len(group) for group in family("srg16")]
    [2]
    """
    check_choice("family", name, FAMILIES)
    return FAMILIES[name]()


def pairs_apart(groups: Groups, classes: list[int]) -> tuple[int, int]:
    """Count the pairs of graphs in a family, and the pairs that a test distinguishes.

    Only graphs of the same group form a pair.

    Args:
        groups: The graphs of the family, as a list of groups.
        classes: The result of the test as a number for each graph, group by group: the
            test distinguishes two graphs iff their numbers differ.

    Returns:
        The number of pairs, and the number of distinguished pairs.

    The family srg16 is one pair of graphs; equal numbers mean "not distinguished":

    >>> pairs_apart(family("srg16"), [0, 0])
    (1, 0)
    """
    total = apart = start = 0
    for group in groups:
        own = classes[start : start + len(group)]
        start += len(group)
        total += len(own) * (len(own) - 1) // 2
        apart += sum(a != b for a, b in combinations(own, 2))
    return total, apart

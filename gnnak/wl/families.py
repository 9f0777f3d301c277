"""Families of graphs that are not isomorphic but hard to distinguish, by name."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations
from math import gcd

import networkx as nx
import torch

from gnnak.errors import OptionError
from gnnak.graphs.families import (
    cfi_pair,
    circulant,
    csl,
    furer_pair,
    srg16,
    srg25,
    srg26,
    srg28,
)
from gnnak.graphs.named import Graph, four_regular_pair, rook, shrikhande, undirected
from gnnak.typing import check_choice, check_count
from gnnak.wl.inputs import read_graph, read_union
from gnnak.wl.isomorphism import isomorphism_classes

__all__ = [
    "cfi_pair",
    "circulant",
    "circulants",
    "connected_graphs",
    "csl",
    "cycle_and_two",
    "four_regular_pair",
    "furer_pair",
    "regular_pair",
    "rook",
    "shrikhande",
    "srg16",
    "srg25",
    "srg26",
    "srg28",
    "trees",
]


def unlike(graphs: Sequence[Graph]) -> list[Graph]:
    """Return the first graph of each isomorphism class, in the order of `graphs`."""
    first: dict[int, Graph] = {}
    for graph, number in zip(graphs, classes(graphs), strict=True):
        first.setdefault(number, graph)
    return list(first.values())


def classes(graphs: Sequence[Graph]) -> list[int]:
    """Return one number per graph; numbers are equal iff the graphs are isomorphic."""
    return isomorphism_classes(read_union(graphs)).tolist()


def circulants(num_nodes: int, num_steps: int = 2) -> list[Graph]:
    """Return all connected circulant graphs with `num_steps` steps, up to isomorphism.

    Node i is adjacent to i ± s for each step s < `num_nodes / 2`. All graphs are
    regular of degree `2 * num_steps`, so 1-WL distinguishes no two of them.
    """
    steps = range(1, (num_nodes + 1) // 2)
    sets = [s for s in combinations(steps, num_steps) if gcd(num_nodes, *s) == 1]
    return unlike([circulant(num_nodes, s) for s in sets])


@lru_cache
def _connected(num_nodes: int) -> tuple[Graph, ...]:
    if num_nodes == 1:
        return (undirected([], 1),)
    grown = []
    new = num_nodes - 1
    for edge_index, _ in _connected(num_nodes - 1):
        for mask in range(1, 1 << new):
            nodes = torch.tensor([node for node in range(new) if mask >> node & 1])
            spokes = torch.stack([nodes, torch.full_like(nodes, new)])
            ends = torch.cat([edge_index, spokes, spokes.flip(0)], dim=1)
            grown.append((ends, num_nodes))
    return tuple(unlike(grown))


def connected_graphs(num_nodes: int) -> list[Graph]:
    """Return all connected graphs with `num_nodes` nodes, one per isomorphism class.

    They are built by adding a node to connected graphs with one node less: every
    connected graph has a node whose removal leaves the graph connected. 2-FWL
    distinguishes all 996 connected graphs with 1 to 7 nodes.
    """
    return list(_connected(check_count("num_nodes", num_nodes, least=1)))


def trees(num_nodes: int) -> list[Graph]:
    """Return all trees with `num_nodes` nodes, one per isomorphism class."""
    check_count("num_nodes", num_nodes, least=2)
    found = nx.nonisomorphic_trees(num_nodes)
    return [(read_graph(tree).edge_index, num_nodes) for tree in found]


def cycle_and_two(num_nodes: int) -> tuple[Graph, Graph]:
    """Return a cycle of `num_nodes` nodes, and two disjoint cycles of half this length.

    Both are 2-regular: 1-WL cannot distinguish them, but 3-WL can. Subgraph-1-WL* can
    if an egonet contains the whole shorter cycle.
    """
    check_count("num_nodes", num_nodes, least=6)
    half = num_nodes // 2
    whole = [(i, (i + 1) % num_nodes) for i in range(num_nodes)]
    left = [(i, (i + 1) % half) for i in range(half)]
    rest = num_nodes - half
    right = [(half + i, half + (i + 1) % rest) for i in range(rest)]
    return undirected(whole, num_nodes), undirected(left + right, num_nodes)


def regular_pair(num_nodes: int, degree: int, seed: int) -> tuple[Graph, Graph]:
    """Sample two regular graphs that are not isomorphic; 1-WL cannot distinguish them.

    `degree` must be at least 3. After 30 isomorphic samples, `OptionError` is raised.
    """
    check_count("degree", degree, least=3)
    found: list[Graph] = []
    for attempt in range(30):
        graph = nx.random_regular_graph(degree, num_nodes, seed=1000 * seed + attempt)
        found = unlike([*found, (read_graph(graph).edge_index, num_nodes)])
        if len(found) == 2:
            return found[0], found[1]
    told = f"all {degree}-regular graphs sampled on {num_nodes} nodes were isomorphic"
    raise OptionError(f"{told}; raise num_nodes.")


SEPARATING = (
    "01 02 12 13 23 34 35 45 46 56",
    "01 02 03 04 12 34 37 47 56 57 67",
    "01 02 12 13 23 34 35 45 56 57 67 68 78",
    "01 02 13 23 24 35 45 46 57 67",
    "01 02 12 13 14 24 25 34 45",
    "01 02 06 13 17 24 35 45 46 57",
    "01 02 03 04 15 25 36 46 57 67 78 79 8a 8b 9c 9d ae be ce de",
    "03 04 05 06 13 14 17 18 25 26 27 28",
)
"""Base graphs, as edges between hexadecimal node numbers. From each, `separating_pair`
builds a pair of graphs that some subgraph WL tests distinguish, and others do not."""


def separating_pair(edges: str) -> tuple[Graph, Graph]:
    """Build the Fürer pair (see `furer_pair`) of a base graph, one of `SEPARATING`."""
    ends = [(int(edge[0], 16), int(edge[1], 16)) for edge in edges.split()]
    return furer_pair(nx.Graph(ends))


Groups = list[list[Graph]]
"""A family of graphs, in groups; only graphs of the same group are compared."""

_REGULAR = ((10, 3), (12, 3), (14, 3), (16, 3), (10, 4), (12, 4), (14, 4), (16, 4))
"""The number of nodes and the degree, for each pair of random regular graphs."""


def _cfi(base: Callable[[], nx.Graph]) -> Callable[[], Groups]:
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
    "separating": lambda: [list(separating_pair(edges)) for edges in SEPARATING],
    "connected": lambda: [connected_graphs(n) for n in range(1, 8)],
}
"""Maps the name of a family to the function that builds it, as lists of graphs."""


def family(name: str) -> Groups:
    """Build a family of graphs that are hard to distinguish by WL tests.

    >>> [len(group) for group in family("srg16")]
    [2]
    """
    check_choice("family", name, FAMILIES)
    return FAMILIES[name]()


def pairs_apart(groups: Groups, classes: list[int]) -> tuple[int, int]:
    """Count all pairs of graphs within groups, and those with different `classes`."""
    total = apart = start = 0
    for group in groups:
        own = classes[start : start + len(group)]
        start += len(group)
        total += len(own) * (len(own) - 1) // 2
        apart += sum(a != b for a, b in combinations(own, 2))
    return total, apart

"""Every small graph, every small tree: where a test can be counted out in full."""

from functools import lru_cache

import networkx as nx
import torch

from gnnak.errors import OptionError
from gnnak.graphs.named import Graph, undirected
from gnnak.typing import check_count
from gnnak.wl.families.unlike import unlike
from gnnak.wl.inputs import read_graph


@lru_cache
def _connected(num_nodes: int) -> tuple[Graph, ...]:
    if num_nodes == 1:
        return (undirected([], 1),)
    grown = []
    new = num_nodes - 1
    for edge_index, _ in _connected(num_nodes - 1):
        for mask in range(1, 1 << new):
            beside = torch.tensor([node for node in range(new) if mask >> node & 1])
            spokes = torch.stack([beside, torch.full_like(beside, new)])
            ends = torch.cat([edge_index, spokes, spokes.flip(0)], dim=1)
            grown.append((ends, num_nodes))
    return tuple(unlike(grown))


def connected_graphs(num_nodes: int) -> list[Graph]:
    """All connected graphs with `num_nodes` nodes, one of each isomorphism class.

    There are 1, 1, 2, 6, 21, 112 and 853 of them with 1 to 7 nodes, 996 in all. Each
    is one node joined to a connected graph that is one smaller, since a connected graph
    has a node whose removal leaves it connected. 2-FWL tells all 996 apart.

    >>> [len(connected_graphs(n)) for n in range(1, 6)]
    [1, 1, 2, 6, 21]
    """
    return list(_connected(check_count("num_nodes", num_nodes, least=1)))


def trees(num_nodes: int) -> list[Graph]:
    """All trees with `num_nodes` nodes, one of each isomorphism class.

    There are 11, 23, 47 and 106 of them with 7 to 10 nodes; 1-WL tells all trees apart.

    >>> len(trees(7))
    11
    """
    check_count("num_nodes", num_nodes, least=2)
    found = nx.nonisomorphic_trees(num_nodes)
    return [(read_graph(tree).edge_index, num_nodes) for tree in found]


def cycle_and_two(num_nodes: int) -> tuple[Graph, Graph]:
    """The cycle with `num_nodes` nodes, and two cycles with as many nodes together.

    Both are 2-regular, so 1-WL does not tell them apart; 3-WL does (it sees whether a
    graph is connected). Subgraph-1-WL* does as soon as an egonet closes one of the
    smaller cycles, that is with `num_hops` of at least floor(length / 2).

    >>> (_, n), (two, _) = cycle_and_two(7)
    >>> n, two.max().item()
    (7, 6)
    """
    check_count("num_nodes", num_nodes, least=6)
    half = num_nodes // 2
    whole = [(i, (i + 1) % num_nodes) for i in range(num_nodes)]
    left = [(i, (i + 1) % half) for i in range(half)]
    rest = num_nodes - half
    right = [(half + i, half + (i + 1) % rest) for i in range(rest)]
    return undirected(whole, num_nodes), undirected(left + right, num_nodes)


def regular_pair(num_nodes: int, degree: int, seed: int) -> tuple[Graph, Graph]:
    """Two random regular graphs that are not isomorphic.

    1-WL tells no such pair apart; 3-WL and Subgraph-1-WL* tell most.

    Args:
        num_nodes: Number of nodes of each.
        degree: Degree of every node, at least 3; `num_nodes * degree` must be even.
        seed: Fixes the draw.
    """
    check_count("degree", degree, least=3)
    drawn: list[Graph] = []
    for attempt in range(30):
        graph = nx.random_regular_graph(degree, num_nodes, seed=1000 * seed + attempt)
        drawn = unlike([*drawn, (read_graph(graph).edge_index, num_nodes)])
        if len(drawn) == 2:
            return drawn[0], drawn[1]
    raise OptionError(
        f"all {degree}-regular graphs drawn on {num_nodes} nodes were isomorphic; "
        "raise num_nodes."
    )

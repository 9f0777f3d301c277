"""Generate small connected graphs, small trees, and pairs of regular graphs."""

from functools import lru_cache

import networkx as nx
import torch

from gnnak.errors import OptionError
from gnnak.graphs.families import Graph, undirected
from gnnak.typing import check_count
from gnnak.wl.families.unlike import unlike
from gnnak.wl.inputs import read_graph


@lru_cache
def _connected(num_nodes: int) -> tuple[Graph, ...]:
    """Return all connected graphs of one size; see `connected_graphs`."""
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

    There are 1, 1, 2, 6, 21, 112 and 853 connected graphs with 1 to 7 nodes, 996 in
    total.
    They are built by adding one node in all possible ways to each connected graph with
    one node less. This finds all connected graphs, since every connected graph has a
    node whose removal leaves the graph connected. The test 2-FWL distinguishes all 996
    graphs.

    >>> [len(connected_graphs(n)) for n in range(1, 6)]
    [1, 1, 2, 6, 21]
    """
    return list(_connected(check_count("num_nodes", num_nodes, least=1)))


def trees(num_nodes: int) -> list[Graph]:
    """Return all trees with `num_nodes` nodes, one per isomorphism class.

    There are 11, 23, 47 and 106 trees with 7, 8, 9 and 10 nodes. The test 1-WL
    distinguishes all trees.

    >>> len(trees(7))
    11
    """
    check_count("num_nodes", num_nodes, least=2)
    found = nx.nonisomorphic_trees(num_nodes)
    return [(read_graph(tree).edge_index, num_nodes) for tree in found]


def cycle_and_two(num_nodes: int) -> tuple[Graph, Graph]:
    """Return one cycle with `num_nodes` nodes, and two disjoint cycles of half length.

    Both graphs are 2-regular, so 1-WL does not distinguish them; 3-WL does, since it
    detects connectivity. Subgraph-1-WL* distinguishes them if an egonet contains a
    whole shorter cycle, that is if `num_hops` is at least half the length of the
    shorter cycle, rounded down.

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
    """Sample two random regular graphs that are not isomorphic.

    The test 1-WL does not distinguish the two graphs; 3-WL and Subgraph-1-WL*
    distinguish most pairs of random regular graphs.

    Args:
        num_nodes: Number of nodes of each graph.
        degree: Degree of every node, at least 3; `num_nodes * degree` must be even.
        seed: Seed of the random graphs.

    Raises:
        OptionError: If 30 graphs were sampled and all of them are isomorphic.
    """
    check_count("degree", degree, least=3)
    found: list[Graph] = []
    for attempt in range(30):
        graph = nx.random_regular_graph(degree, num_nodes, seed=1000 * seed + attempt)
        found = unlike([*found, (read_graph(graph).edge_index, num_nodes)])
        if len(found) == 2:
            return found[0], found[1]
    raise OptionError(
        f"all {degree}-regular graphs sampled on {num_nodes} nodes were isomorphic; "
        "raise num_nodes."
    )

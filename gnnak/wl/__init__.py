"""Weisfeiler-Leman (WL) tests: can a test, or a network, distinguish two graphs?

The tests are 1-WL, k-WL, k-FWL and the paper's Subgraph-1-WL. A test assigns colours
to nodes (or tuples of nodes) and refines them in rounds; it distinguishes two graphs if
their multisets of colours differ.

>>> import networkx as nx
>>> from gnnak import wl
>>> triangles = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
>>> wl.distinguishes("1-wl", nx.cycle_graph(6), triangles)
False
>>> wl.distinguishes("subgraph-1-wl*", nx.cycle_graph(6), triangles, num_hops=1)
True
"""

from gnnak.wl.compare import distinguishes, partition
from gnnak.wl.explain import Explanation, explain
from gnnak.wl.options import HASHES, TESTS, Options

__all__ = [
    "HASHES",
    "TESTS",
    "Explanation",
    "Options",
    "distinguishes",
    "explain",
    "partition",
]

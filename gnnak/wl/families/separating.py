"""Pairs of graphs that show which of two Weisfeiler-Leman (WL) tests is more powerful.

The base graphs are those of figures 4 to 11 of Zhang et al., "A Complete Expressiveness
Hierarchy for Subgraph GNNs via Subgraph Weisfeiler-Lehman Tests" (2023).
"""

from typing import NamedTuple

import networkx as nx

from gnnak.graphs.families import Graph, furer_pair


class Separation(NamedTuple):
    """Two graphs, a test that distinguishes them, and a test that does not.

    Each test is its name and its readout (`vs` or `sv`, see `gnnak.wl.pair_tests`); the
    readout is None for tests without readouts. Subgraphs are whole graphs with marked
    roots. Graphs have no labels.
    """

    edges: str
    """The edges of the base graph, such as `01 02 12`; nodes are hexadecimal digits."""
    stronger: tuple[str, str | None]
    """A test that distinguishes the two graphs."""
    weaker: tuple[str, str | None]
    """A test that does not distinguish the two graphs."""

    def pair(self) -> tuple[Graph, Graph]:
        """Build the two graphs: the Fürer pair of the base graph."""
        ends = [(int(edge[0], 16), int(edge[1], 16)) for edge in self.edges.split()]
        return furer_pair(nx.Graph(ends))


SEPARATIONS: tuple[Separation, ...] = (
    Separation("01 02 12 13 23 34 35 45 46 56", ("swl", "sv"), ("pswl", "vs")),
    Separation("01 02 03 04 12 34 37 47 56 57 67", ("pswl", "vs"), ("swl", "sv")),
    Separation(
        "01 02 12 13 23 34 35 45 56 57 67 68 78", ("gswl", "vs"), ("pswl", "sv")
    ),
    Separation("01 02 13 23 24 35 45 46 57 67", ("sswl", "vs"), ("gswl", "vs")),
    Separation("01 02 12 13 14 24 25 34 45", ("2-lfwl", None), ("sswl", "vs")),
    Separation("01 02 06 13 17 24 35 45 46 57", ("sswl", "vs"), ("2-lfwl", None)),
    Separation(
        "01 02 03 04 15 25 36 46 57 67 78 79 8a 8b 9c 9d ae be ce de",
        ("swl", "sv"),
        ("2-lfwl", None),
    ),
    Separation(
        "03 04 05 06 13 14 17 18 25 26 27 28", ("2-fwl", None), ("2-slfwl", None)
    ),
)
"""One pair of graphs for each gap in the hierarchy of subgraph WL tests."""

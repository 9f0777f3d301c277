"""Explain why a WL test distinguishes two graphs: in which round, by which colours."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gnnak.errors import counted
from gnnak.subgraphs import egonets
from gnnak.wl.bounds import find_test
from gnnak.wl.compare import run_test
from gnnak.wl.inputs import Graph, GraphUnion, LabeledGraph, read_graph, read_union
from gnnak.wl.options import Options
from gnnak.wl.pair_tests import PAIR_TESTS
from gnnak.wl.refinement import REFINEMENTS, Coloring


@dataclass(frozen=True)
class DecidingColor:
    """A colour of a WL test that occurs more often in one graph than in the other."""

    color: int
    """The colour in the deciding round, the first that distinguishes the graphs."""
    counts: tuple[int, int]
    """How often the colour occurs in the first and in the second graph."""
    graph: int
    """The graph of `example`: 0, or 1 if the colour does not occur in graph 0."""
    example: tuple[int, ...]
    """A node (as a tuple of length 1), or a tuple of nodes, that has the colour."""
    before: int | None
    """The colour of `example` one round earlier; None if round 0 is deciding."""
    sees: dict[int, int]
    """Maps a colour of the previous round to the number of nodes around `example` with
    this colour: its neighbours for 1-WL, its egonet for Subgraph-1-WL. Empty for other
    tests, or if round 0 decides."""
    joined: int | None
    """For Subgraph-1-WL, the number of edges in the egonet of `example`; else None."""


@dataclass(frozen=True)
class Explanation:
    """Why a Weisfeiler-Leman (WL) test does or does not distinguish two graphs.

    `str(explanation)` returns the explanation in sentences.
    """

    test: str
    options: Options
    round: int | None
    """The deciding round: the first in which a colour occurs more often in one graph
    than in the other. None if the test does not distinguish the graphs."""
    rounds: int
    """Number of rounds until the colouring was stable."""
    colors: tuple[DecidingColor, ...]
    """The colours of the deciding round that occur more often in one of the graphs."""
    node_colors: tuple[list[int], list[int]]
    """The stable colour of every node, in the first and in the second graph."""
    graphs: tuple[LabeledGraph, LabeledGraph]
    label: str
    """The test with its options, after the name of the network if one was given."""

    @property
    def distinguished(self) -> bool:
        """Whether the test distinguishes the graphs."""
        return self.round is not None

    def __str__(self) -> str:
        if self.round is None:
            return (
                f"{self.label} does not tell the graphs apart: stable after "
                f"{counted(self.rounds, 'round')}, with the same colours equally often."
            )
        lines = [f"{self.label} tells the graphs apart in round {self.round}."]
        for color in self.colors:
            first, second = color.counts
            line = f"Colour {color.color}: {first} in the first, {second} in the second"
            where = "second" if color.graph else "first"
            nodes = color.example
            name = f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {nodes}"
            line += f"; for example {name} of the {where}"
            if color.before is not None:
                line += f", which had colour {color.before}"
            if color.sees:
                seen = ", ".join(f"{n} x {c}" for c, n in color.sees.items())
                line += f" and saw colours {seen}"
            if color.joined is not None:
                line += f" with {counted(color.joined, 'edge')}"
            lines.append(line + ".")
        return "\n".join(lines)


def explain(test: str, first: Graph, second: Graph, **options: object) -> Explanation:
    """Find the first round, and the colours in it, that distinguish two graphs.

    Args:
        test: A name in `TESTS`, or the name of a network, such as "gin-ak+", for the
            test that bounds the network. The network's egonets have 3 hops, as in
            `build_model`; if yours have another radius, set `num_hops`.
        first: A networkx graph, PyG data, (edge_index, num_nodes), graph6 string, or
            the path of a file with one graph.
        second: Another graph.
        **options: Fields of `Options` that the test takes.

    >>> import networkx as nx
    >>> print(explain("1-wl", nx.path_graph(4), nx.star_graph(3)))
    1-wl tells the graphs apart in round 1.
    Colour 0: 2 in the first, 3 in the second; for example node 0 of the first, \
which had colour 0 and saw colours 1 x 0.
    Colour 1: 2 in the first, 0 in the second; for example node 1 of the first, \
which had colour 0 and saw colours 2 x 0.
    Colour 2: 0 in the first, 1 in the second; for example node 0 of the second, \
which had colour 0 and saw colours 3 x 0.
    """
    found = find_test(test, options)
    chosen = found.read()
    union, history = _rounds(found.test, [first, second], chosen)
    deciding = next(
        (n for n, c in enumerate(history) if c.fingerprints(2).unique().numel() == 2),
        None,
    )
    colors: tuple[DecidingColor, ...] = ()
    if deciding is not None:
        colors = _deciding_colors(found.test, union, chosen, history[: deciding + 1])
    last = history[-1]
    split = last.color[last.node].split(union.sizes.tolist())
    return Explanation(
        found.test,
        chosen,
        deciding,
        len(history) - 1,
        colors,
        (split[0].tolist(), split[1].tolist()),
        (read_graph(first), read_graph(second)),
        found.label,
    )


def _rounds(
    test: str, graphs: Sequence[Graph], options: Options
) -> tuple[GraphUnion, list[Coloring]]:
    union = read_union(graphs, options.labels, options.undirected)
    return union, [*run_test(test, union, options)]


def _deciding_colors(
    test: str, union: GraphUnion, options: Options, history: Sequence[Coloring]
) -> tuple[DecidingColor, ...]:
    """Find the colours of the last round that occur more often in one of the graphs."""
    now = history[-1]
    size = now.num_colors
    in_first = torch.bincount(now.color[now.graph == 0], minlength=size)
    in_second = torch.bincount(now.color[now.graph == 1], minlength=size)
    found = []
    for color in (in_first != in_second).nonzero().flatten().tolist():
        # Tuples are sorted by the size of their graph, so the first tuple with this
        # colour may be in graph 1 although graph 0 has the colour, too.
        graph = 0 if in_first[color] else 1
        item = int(((now.color == color) & (now.graph == graph)).nonzero()[0])
        before = None if len(history) == 1 else int(history[-2].color[item])
        sees, joined = {}, None
        colors_nodes = test not in PAIR_TESTS and now.color.numel() == union.num_nodes
        if before is not None and colors_nodes:
            around, joined = _around(test, union, options, item)
            sees = dict(sorted(Counter(history[-2].color[around].tolist()).items()))
        counts = int(in_first[color]), int(in_second[color])
        nodes = _entries(union, now, item)
        found.append(DecidingColor(color, counts, graph, nodes, before, sees, joined))
    return tuple(found)


def _around(
    test: str, union: GraphUnion, options: Options, node: int
) -> tuple[Tensor, int | None]:
    if test in REFINEMENTS:
        return union.edge_index[0, union.edge_index[1] == node], None
    arcs = union.edge_index[:, union.forward]
    root = torch.tensor([node])
    assert options.num_hops is not None
    seen = egonets(arcs, union.num_nodes, options.num_hops, root).node
    inside = torch.isin(union.edge_index, seen).all(dim=0)
    source, target = union.edge_index[:, inside]
    return seen, int((source <= target).sum())


def _entries(union: GraphUnion, coloring: Coloring, item: int) -> tuple[int, ...]:
    """Return the nodes of an item (a node or tuple), as numbers within their graph."""
    graph = int(coloring.graph[item])
    if coloring.entries is not None:
        nodes = coloring.entries[item] - int((union.graph < graph).sum())
        return tuple(nodes.tolist())
    size = int(union.sizes[graph])
    index = item - int((coloring.graph == graph).nonzero()[0])
    items, shape = int((coloring.graph == graph).sum()), [size]
    while math.prod(shape) < items:
        shape.append(size)
    return tuple(int(entry) for entry in np.unravel_index(index, shape))

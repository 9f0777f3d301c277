"""A picture of two graphs, coloured by the stable colouring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx as nx
from matplotlib import colormaps
from matplotlib.figure import Figure

from gnnak.wl.explain import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_NODES = 500
"""Larger graphs are not drawn: nothing could be seen."""


def draw(explanation: Explanation) -> Figure:
    """Draw both graphs side by side, each node in its stable colour.

    The same colour in both graphs is the same colour of the test; its number stands in
    the node. Layout is fixed, so that the same graphs give the same picture.

    >>> from gnnak.wl import explain
    >>> figure = draw(explain("1-wl", "Bw", "Bg"))
    >>> [axes.get_title() for axes in figure.axes]
    ['first: 3 nodes, 1 colour', 'second: 3 nodes, 2 colours']
    """
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    used = sorted({c for colors in explanation.node_colors for c in colors})
    shade = {color: place for place, color in enumerate(used)}
    for index, name in enumerate(("first", "second")):
        axes = figure.add_subplot(1, 2, index + 1)
        graph = explanation.graphs[index]
        colors = explanation.node_colors[index]
        nodes = _count(graph.num_nodes, "node")
        axes.set_title(f"{name}: {nodes}, {_count(len(set(colors)), 'colour')}")
        axes.set_axis_off()
        drawn = nx.Graph(graph.edge_index.T.tolist())
        drawn.add_nodes_from(range(graph.num_nodes))
        if graph.num_nodes <= MAX_NODES:
            _draw_graph(axes, drawn, colors, [shade[c] for c in colors], len(used))
    verdict = "told apart" if explanation.distinguished else "not told apart"
    figure.suptitle(f"{explanation.test}: {verdict}")
    return figure


def _draw_graph(
    axes: Axes, graph: nx.Graph, colors: list[int], shades: list[int], num_shades: int
) -> None:
    place = nx.spring_layout(graph, seed=0, iterations=200)
    palette = colormaps["tab20" if num_shades <= 20 else "turbo"]
    top = 20 if num_shades <= 20 else num_shades
    for u, v in graph.edges:
        (x, y), (z, w) = place[u], place[v]
        axes.plot([x, z], [y, w], color="0.7", linewidth=1, zorder=1)
    for node, (x, y) in place.items():
        shown = palette((shades[node] + 0.5) / top)
        axes.scatter(x, y, s=180, color=shown, edgecolors="0.2", zorder=2)
        axes.annotate(
            str(colors[node]), (x, y), ha="center", va="center", size=7, zorder=3
        )
    axes.set_aspect("equal")


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"

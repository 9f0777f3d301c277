"""Plot two graphs; the colour of a node is its final colour in a WL test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx as nx
from matplotlib import colormaps
from matplotlib.figure import Figure

from gnnak.wl.explain import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_NODES = 500
"""Graphs with more nodes than this are not plotted, since nodes would overlap."""


def plot_explanation(explanation: Explanation) -> Figure:
    """Plot both graphs side by side; nodes have their final colours in the WL test.

    Nodes with the same final colour in the test are plotted in the same colour, also
    across the two graphs. The number of the final colour is written into the node. The
    layout has a fixed seed, so the same graphs give the same plot.

    >>> from gnnak.wl import explain
    >>> figure = plot_explanation(explain("1-wl", "Bw", "Bg"))
    >>> [axes.get_title() for axes in figure.axes]
    ['first: 3 nodes, 1 colour', 'second: 3 nodes, 2 colours']
    """
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    used = sorted({c for colors in explanation.node_colors for c in colors})
    shade = {color: index for index, color in enumerate(used)}
    for index, name in enumerate(("first", "second")):
        axes = figure.add_subplot(1, 2, index + 1)
        graph = explanation.graphs[index]
        colors = explanation.node_colors[index]
        nodes = _count(graph.num_nodes, "node")
        axes.set_title(f"{name}: {nodes}, {_count(len(set(colors)), 'colour')}")
        axes.set_axis_off()
        plotted = nx.Graph(graph.edge_index.T.tolist())
        plotted.add_nodes_from(range(graph.num_nodes))
        if graph.num_nodes <= MAX_NODES:
            _plot_graph(axes, plotted, colors, [shade[c] for c in colors], len(used))
    verdict = "told apart" if explanation.distinguished else "not told apart"
    figure.suptitle(f"{explanation.test}: {verdict}")
    return figure


def _plot_graph(
    axes: Axes, graph: nx.Graph, colors: list[int], shades: list[int], num_shades: int
) -> None:
    position = nx.spring_layout(graph, seed=0, iterations=200)
    palette = colormaps["tab20" if num_shades <= 20 else "turbo"]
    top = 20 if num_shades <= 20 else num_shades
    for u, v in graph.edges:
        (x, y), (z, w) = position[u], position[v]
        axes.plot([x, z], [y, w], color="0.7", linewidth=1, zorder=1)
    for node, (x, y) in position.items():
        shown = palette((shades[node] + 0.5) / top)
        axes.scatter(x, y, s=180, color=shown, edgecolors="0.2", zorder=2)
        axes.annotate(
            str(colors[node]), (x, y), ha="center", va="center", size=7, zorder=3
        )
    axes.set_aspect("equal")


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"

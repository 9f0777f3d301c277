"""Plot two graphs; the colour of a node is its final colour in a WL test."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import networkx as nx
from matplotlib import colormaps
from matplotlib.figure import Figure

from gnnak.errors import counted
from gnnak.wl.explain import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_NODES = 500
"""Graphs with more nodes than this are not plotted, since nodes would overlap."""


def plot_explanation(explanation: Explanation) -> Figure:
    """Plot both graphs side by side; node colours and numbers are final WL colours."""
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    used = sorted({c for colors in explanation.node_colors for c in colors})
    shade = {color: index for index, color in enumerate(used)}
    for index, name in enumerate(("first", "second")):
        axes = figure.add_subplot(1, 2, index + 1)
        graph = explanation.graphs[index]
        colors = explanation.node_colors[index]
        nodes = counted(graph.num_nodes, "node")
        axes.set_title(f"{name}: {nodes}, {counted(len(set(colors)), 'colour')}")
        axes.set_axis_off()
        plotted = nx.Graph(graph.edge_index.T.tolist())
        plotted.add_nodes_from(range(graph.num_nodes))
        if graph.num_nodes <= MAX_NODES:
            _plot_graph(axes, plotted, colors, [shade[c] for c in colors], len(used))
    verdict = "told apart" if explanation.distinguished else "not told apart"
    figure.suptitle(f"{explanation.label}: {verdict}")
    return figure


def _plot_graph(
    axes: Axes, graph: nx.Graph, colors: list[int], shades: list[int], num_shades: int
) -> None:
    position = positions(graph)
    palette = colormaps["tab20" if num_shades <= 20 else "turbo"]
    top = 20 if num_shades <= 20 else num_shades
    for u, v in graph.edges:
        (x, y), (z, w) = position[u], position[v]
        axes.plot([x, z], [y, w], color="0.7", linewidth=1, zorder=1)
    for node, (x, y) in position.items():
        shown = palette((shades[node] + 0.5) / top)
        # Nodes at the border of the axes would be cut off without clip_on=False.
        axes.scatter(
            x, y, s=180, color=shown, edgecolors="0.2", zorder=2, clip_on=False
        )
        luminance = 0.299 * shown[0] + 0.587 * shown[1] + 0.114 * shown[2]
        text, ink = str(colors[node]), "white" if luminance < 0.45 else "black"
        axes.annotate(
            text, (x, y), ha="center", va="center", size=7, zorder=3, color=ink
        )
    axes.set_aspect("equal")
    axes.margins(0.1)


def positions(graph: nx.Graph) -> dict[int, tuple[float, float]]:
    """Return the coordinates of every node in a plot; components lie side by side."""
    parts = sorted(nx.connected_components(graph), key=lambda part: (-len(part), part))
    sides = [2 * math.sqrt(len(part)) for part in parts]
    area = sum(side**2 for side in sides)
    row_width = max([*sides, 1.2 * math.sqrt(area)], default=0)
    places: dict[int, tuple[float, float]] = {}
    left = top = height = 0.0
    for part, side in zip(parts, sides, strict=True):
        if left and left + side > row_width:
            left, top, height = 0.0, top - height, 0.0
        inside = nx.spring_layout(
            graph.subgraph(part), seed=0, iterations=200, scale=0.4 * side
        )
        for node, (x, y) in inside.items():
            places[node] = (left + side / 2 + float(x), top - side / 2 + float(y))
        left, height = left + side, max(height, side)
    return places

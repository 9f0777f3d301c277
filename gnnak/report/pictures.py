"""Plot graphs, rooted subgraphs and learning curves."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gnnak.graphs.named import Graph
from gnnak.subgraphs import egonets

HOP_COLOURS = ("#d1495b", "#edae49", "#66a182", "#2e4057")
OUTSIDE = "#d9d9d9"
CURVE_COLOURS = ("#8d99ae", "#d1495b", "#2e4057", "#66a182")


def plot_graph(axes: Axes, graph: Graph, root: int, num_hops: int, title: str) -> None:
    """Plot a graph with its nodes on a circle, and highlight the egonet of `root`.

    Nodes of the egonet are coloured by their distance to `root`; others are grey.
    """
    plotted, hops = _as_networkx(graph), _hops(graph, root, num_hops)
    inside = [edge for edge in plotted.edges if edge[0] in hops and edge[1] in hops]
    position = nx.circular_layout(plotted)
    nx.draw_networkx_edges(plotted, position, ax=axes, edge_color=OUTSIDE)
    nx.draw_networkx_edges(
        plotted, position, inside, ax=axes, width=2.0, edge_color="#555555"
    )
    _plot_nodes(axes, plotted, position, hops)
    axes.set_title(title, fontsize=10)
    axes.set_axis_off()


def plot_egonet(axes: Axes, graph: Graph, root: int, num_hops: int, title: str) -> None:
    """Plot the egonet of `root`, with the other nodes on one circle per distance."""
    hops = _hops(graph, root, num_hops)
    plotted = _as_networkx(graph).subgraph(hops)
    position = {}
    for hop in range(num_hops + 1):
        ring = sorted(node for node in hops if hops[node] == hop)
        # With an odd number of slots, no two nodes of a ring are opposite each other:
        # an edge between them would pass through the root.
        slots = len(ring) + 1 - len(ring) % 2
        for slot, node in enumerate(ring):
            angle = 2 * np.pi * slot / slots
            position[node] = hop * np.array([np.cos(angle), np.sin(angle)])
    nx.draw_networkx_edges(plotted, position, ax=axes, width=2.0, edge_color="#555555")
    _plot_nodes(axes, plotted, position, hops)
    axes.set_title(title, fontsize=10)
    axes.margins(0.2)
    axes.set_axis_off()


def plot_curves(
    axes: Axes, curves: Mapping[str, Sequence[float]], label: str, title: str
) -> None:
    """Plot one or more learning curves: score over epoch."""
    for colour, (name, values) in zip(CURVE_COLOURS, curves.items(), strict=False):
        axes.plot(range(1, len(values) + 1), values, label=name, color=colour, lw=2)
    axes.set_xlabel("epoch")
    axes.set_ylabel(label)
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


def save(figure: Figure, path: Path) -> None:
    """Write a figure to a file atomically, in the format of the file's extension.

    The folder of the file is created if it does not exist.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    FigureCanvasAgg(figure)
    figure.savefig(partial, format=path.suffix.removeprefix(".") or "png", dpi=130)
    partial.replace(path)


def _as_networkx(graph: Graph) -> nx.Graph:
    edge_index, num_nodes = graph
    converted = nx.Graph()
    converted.add_nodes_from(range(num_nodes))
    converted.add_edges_from(edge_index.t().tolist())
    return converted


def _hops(graph: Graph, root: int, num_hops: int) -> dict[int, int]:
    """Return a dict from the nodes in the egonet of `root` to their distances."""
    subs = egonets(*graph, num_hops)
    own = subs.subgraph == root
    return dict(zip(subs.node[own].tolist(), subs.hop[own].tolist(), strict=True))


def _plot_nodes(
    axes: Axes, graph: nx.Graph, position: dict[int, np.ndarray], hops: dict[int, int]
) -> None:
    """Plot the nodes of a graph, labelled with numbers and coloured by distance."""
    colours = [
        HOP_COLOURS[min(hops[node], len(HOP_COLOURS) - 1)] if node in hops else OUTSIDE
        for node in graph
    ]
    nx.draw_networkx_nodes(graph, position, ax=axes, node_color=colours, node_size=230)
    nx.draw_networkx_labels(graph, position, ax=axes, font_size=8)

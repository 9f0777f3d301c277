"""Pictures of graphs, rooted subgraphs and learning curves."""

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


def draw_graph(axes: Axes, graph: Graph, root: int, num_hops: int, title: str) -> None:
    """Draw a graph on a circle, the egonet of `root` coloured by hop."""
    drawn, far = _as_networkx(graph), _hops(graph, root, num_hops)
    inside = [edge for edge in drawn.edges if edge[0] in far and edge[1] in far]
    place = nx.circular_layout(drawn)
    nx.draw_networkx_edges(drawn, place, ax=axes, edge_color=OUTSIDE)
    nx.draw_networkx_edges(
        drawn, place, inside, ax=axes, width=2.0, edge_color="#555555"
    )
    _draw_nodes(axes, drawn, place, far)
    axes.set_title(title, fontsize=10)
    axes.set_axis_off()


def draw_egonet(axes: Axes, graph: Graph, root: int, num_hops: int, title: str) -> None:
    """Draw the egonet of `root` alone, hop by hop on rings around it."""
    far = _hops(graph, root, num_hops)
    drawn = _as_networkx(graph).subgraph(far)
    place = {}
    for hop in range(num_hops + 1):
        ring = sorted(node for node in far if far[node] == hop)
        slots = len(ring) + 1 - len(ring) % 2  # odd: no two opposite, across the root
        for slot, node in enumerate(ring):
            turn = 2 * np.pi * slot / slots
            place[node] = hop * np.array([np.cos(turn), np.sin(turn)])
    nx.draw_networkx_edges(drawn, place, ax=axes, width=2.0, edge_color="#555555")
    _draw_nodes(axes, drawn, place, far)
    axes.set_title(title, fontsize=10)
    axes.margins(0.2)
    axes.set_axis_off()


def draw_curves(
    axes: Axes, curves: Mapping[str, Sequence[float]], label: str, title: str
) -> None:
    """Draw one learning curve a name, over epochs counted from 1."""
    for colour, (name, values) in zip(CURVE_COLOURS, curves.items(), strict=False):
        axes.plot(range(1, len(values) + 1), values, label=name, color=colour, lw=2)
    axes.set_xlabel("epoch")
    axes.set_ylabel(label)
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


def save(figure: Figure, path: Path) -> None:
    """Write the figure as a file, atomically, with its folder if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    FigureCanvasAgg(figure)
    figure.savefig(partial, format=path.suffix.removeprefix(".") or "png", dpi=130)
    partial.replace(path)


def _as_networkx(graph: Graph) -> nx.Graph:
    edge_index, num_nodes = graph
    drawn = nx.Graph()
    drawn.add_nodes_from(range(num_nodes))
    drawn.add_edges_from(edge_index.t().tolist())
    return drawn


def _hops(graph: Graph, root: int, num_hops: int) -> dict[int, int]:
    subs = egonets(*graph, num_hops)
    own = subs.subgraph == root
    return dict(zip(subs.node[own].tolist(), subs.hop[own].tolist(), strict=True))


def _draw_nodes(
    axes: Axes, drawn: nx.Graph, place: dict[int, np.ndarray], far: dict[int, int]
) -> None:
    colours = [
        HOP_COLOURS[min(far[node], len(HOP_COLOURS) - 1)] if node in far else OUTSIDE
        for node in drawn
    ]
    nx.draw_networkx_nodes(drawn, place, ax=axes, node_color=colours, node_size=230)
    nx.draw_networkx_labels(drawn, place, ax=axes, font_size=8)

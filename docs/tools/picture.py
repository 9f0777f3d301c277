"""Plot the picture of the README: a graph, the star of a node, its rooted subgraph.

Run `python -m docs.tools.picture`; the picture is `docs/assets/star-and-subgraph.svg`.
Its greys are readable on a light and on a dark page.
"""

from pathlib import Path

import matplotlib
import networkx as nx
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gnnak.graphs.named import undirected
from gnnak.report.pictures import HOP_COLOURS, inline_svg
from gnnak.subgraphs import egonets

PICTURE = Path(__file__).parents[1] / "assets" / "star-and-subgraph.svg"
LABEL = "A graph with a root; its star; its rooted subgraph of two hops"
GREY, PALE = "#7d8794", "#b9c0c8"
ROOT = 0
POSITION = {
    0: (0.0, 0.0),
    1: (-0.9, 0.6),
    2: (0.1, 1.0),
    3: (1.0, 0.4),
    4: (0.2, -1.0),
    5: (-1.8, 0.1),
    6: (-1.1, 1.7),
    7: (1.2, 1.6),
    8: (2.0, -0.1),
    9: (1.2, -1.2),
    10: (-0.9, -1.3),
    11: (-2.6, 0.9),
    12: (2.4, 1.1),
    13: (2.2, -1.3),
}
EDGES = [
    (0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 3), (1, 5), (1, 6), (2, 6), (2, 7),
    (3, 7), (3, 8), (4, 9), (4, 10), (8, 9), (5, 11), (6, 11), (8, 12), (7, 12),
    (9, 13), (8, 13),
]  # fmt: skip


def plot() -> Figure:
    """Plot the graph three times: whole, with a star, and with a rooted subgraph."""
    graph = nx.Graph(EDGES)
    star = nx.Graph(edge for edge in EDGES if ROOT in edge)
    subgraphs = egonets(*undirected(EDGES, len(POSITION)), num_hops=2)
    own = subgraphs.subgraph == ROOT
    hops = dict(
        zip(subgraphs.node[own].tolist(), subgraphs.hop[own].tolist(), strict=True)
    )
    figure = Figure(figsize=(9.6, 2.5), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _plot(left, graph, {ROOT: 0}, nx.Graph(), "a graph and its node v")
    one_hop = {node: hops[node] for node in star}
    _plot(middle, graph, one_hop, star, "a GNN sees v's star")
    inside = graph.subgraph(hops)
    _plot(right, graph, hops, inside, "GNN-AK sees v's rooted subgraph")
    return figure


def _plot(
    axes: Axes, graph: nx.Graph, hops: dict[int, int], seen: nx.Graph, title: str
) -> None:
    """Plot a graph in grey, and the part that is seen in colours, by distance."""
    for u, v in graph.edges:
        bold = seen.has_edge(u, v)
        ends = zip(POSITION[u], POSITION[v], strict=True)
        style = {"color": GREY if bold else PALE, "lw": 2.5 if bold else 1.0}
        axes.plot(*ends, zorder=1, **style)
    for node, place in POSITION.items():
        colour = HOP_COLOURS[hops[node]] if node in hops else PALE
        axes.plot(*place, "o", color=colour, ms=13 if node in hops else 7, zorder=2)
    axes.annotate(
        "v", POSITION[ROOT], ha="center", va="center", color="white", weight="bold"
    )
    axes.set_title(title, fontsize=11, color=GREY)
    axes.set(aspect="equal")
    axes.margins(0.08)
    axes.set_axis_off()


def main() -> None:
    """Write the picture."""
    PICTURE.parent.mkdir(exist_ok=True)
    with matplotlib.rc_context({"figure.facecolor": "none"}):
        PICTURE.write_text(inline_svg(plot(), LABEL) + "\n", "utf-8")
    print(PICTURE.name)


if __name__ == "__main__":
    main()

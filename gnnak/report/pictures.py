"""Plot graphs, learning curves and costs, to files and as inline SVG for the report."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from gnnak.graphs.named import Graph, four_regular_pair
from gnnak.graphs.readers.files import make_folder, write_bytes
from gnnak.subgraphs import egonets
from gnnak.training.records.results import Record

HOP_COLOURS = ("#d1495b", "#edae49", "#66a182", "#2e4057")
OUTSIDE = "#d9d9d9"
CURVE_COLOURS = ("#8d99ae", "#d1495b", "#2e4057", "#66a182")
INK = "#010203"
"""`inline_svg` replaces this colour by `currentColor`, the text colour of the page."""
GRAPH_EDGES = "#555555"
"""Colour of graph edges. Like `INK`, it becomes `currentColor` in `inline_svg`."""
COLOURS = ("#d1495b", "#4c8bd6", "#3f9b6c", "#c58a1a", "#8d6fc9", "#7d8794")
"""Colours of lines and bars, visible on a white and on a black page."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def plot_graph(axes: Axes, graph: Graph, root: int, num_hops: int, title: str) -> None:
    """Plot a graph with nodes on a circle; colour the egonet of `root` by distance."""
    plotted, hops = _as_networkx(graph), _hops(graph, root, num_hops)
    position = nx.circular_layout(plotted)
    nx.draw_networkx_edges(plotted, position, ax=axes, edge_color=OUTSIDE)
    _plot_hops(axes, plotted, position, hops, title)


def plot_egonet(axes: Axes, graph: Graph, root: int, num_hops: int, title: str) -> None:
    """Plot the egonet of `root`: the root in the middle, and a circle per distance."""
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
    _plot_hops(axes, plotted, position, hops, title)
    axes.margins(0.2)


def plot_curves(
    axes: Axes, curves: Mapping[str, Sequence[float]], label: str, title: str
) -> None:
    for colour, (name, values) in zip(CURVE_COLOURS, curves.items(), strict=False):
        axes.plot(range(1, len(values) + 1), values, label=name, color=colour, lw=2)
    axes.set_xlabel("epoch")
    axes.set_ylabel(label)
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


def save(figure: Figure, path: Path) -> None:
    content = io.BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(content, format=path.suffix.removeprefix(".") or "png", dpi=130)
    make_folder(path.parent)
    write_bytes(path, content.getvalue())


def _as_networkx(graph: Graph) -> nx.Graph:
    edge_index, num_nodes = graph
    converted = nx.empty_graph(num_nodes)
    converted.add_edges_from(edge_index.t().tolist())
    return converted


def _hops(graph: Graph, root: int, num_hops: int) -> dict[int, int]:
    subs = egonets(*graph, num_hops)
    own = subs.subgraph == root
    return dict(zip(subs.node[own].tolist(), subs.hop[own].tolist(), strict=True))


def _plot_hops(
    axes: Axes,
    graph: nx.Graph,
    position: dict[int, np.ndarray],
    hops: dict[int, int],
    title: str,
) -> None:
    """Plot all nodes, coloured by distance, and the edges inside the egonet."""
    inside = [edge for edge in graph.edges if edge[0] in hops and edge[1] in hops]
    nx.draw_networkx_edges(
        graph, position, inside, ax=axes, width=2.0, edge_color=GRAPH_EDGES
    )
    colours = [
        HOP_COLOURS[min(hops[node], len(HOP_COLOURS) - 1)] if node in hops else OUTSIDE
        for node in graph
    ]
    nx.draw_networkx_nodes(graph, position, ax=axes, node_color=colours, node_size=230)
    nx.draw_networkx_labels(graph, position, ax=axes, font_size=8)
    axes.set_title(title, fontsize=10)
    axes.set_axis_off()


def inline_svg(figure: Figure, label: str) -> str:
    """Convert a figure to an `<svg>` element; CSS must set its width and height."""
    FigureCanvasSVG(figure)
    out = io.StringIO()
    with rc_context({**STYLE, "svg.hashsalt": label}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"(?s)(<metadata>.*?</metadata>|<!--.*?-->)\s*", "", text)
    for ink in (INK, GRAPH_EDGES):
        text = text.replace(ink, "currentColor")
    text = re.sub(r" (?:d|x|y|transform)=\"[^\"]*\"", _rounded, text)
    (box,) = re.findall(r'^<svg[^>]*( viewBox="[^"]*")', text)
    head = (
        f'<svg role="img" aria-label="{escape(label)}"{box} '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    )
    text = head + text[text.index(">") :]
    used = set(re.findall(r"#([\w.-]+)", text))
    return re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in used else "", text)


def _rounded(attribute: re.Match[str]) -> str:
    """Round the numbers in an SVG attribute to two decimals, to make pages smaller."""
    return re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}", attribute[0])


@rc_context(STYLE)
def curves_figure(
    curves: Mapping[str, Sequence[float]], title: str, label: str, log: bool
) -> str:
    """Plot learning curves (validation score over epoch); return an `<svg>` element."""
    figure = Figure(figsize=(7.2, 3.6 + 0.1 * len(curves)), layout="constrained")
    axes = figure.subplots()
    for place, (name, values) in enumerate(curves.items()):
        colour = COLOURS[place % len(COLOURS)]
        epochs = range(1, len(values) + 1)
        axes.plot(epochs, values, label=name, color=colour, lw=1.6)
        axes.plot(len(values), values[-1], "o", color=colour, ms=3 if values[1:] else 6)
    every = [value for line in curves.values() for value in line]
    if log and min(every) > 0 and max(every) > 2 * min(every):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        few = max(every) < 10 * min(every)  # else labels of minor ticks overlap
        axes.yaxis.set_minor_formatter("{x:g}" if few else NullFormatter())
        axes.tick_params(axis="y", which="minor", labelsize=8)
    axes.set(title=title, xlabel="epoch", ylabel=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    columns = 1 if max(map(len, curves)) > 40 else 2
    figure.legend(loc="outside lower center", fontsize=8, ncols=columns)
    return inline_svg(figure, f"Learning curves, {title}: {', '.join(curves)}")


@rc_context(STYLE)
def settings_figure(
    names: Sequence[str],
    seconds: Sequence[float],
    megabytes: Sequence[float],
    title: str,
) -> str:
    """Plot the cost of training with several settings; return an `<svg>` element."""
    figure = Figure(figsize=(7.2, 1.1 + 0.28 * len(names)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    places = range(len(names))
    costs = {"seconds an epoch": seconds, "peak memory, MB": megabytes}
    panels_and_costs = zip(panels, costs.items(), COLOURS, strict=False)
    for axes, (label, values), colour in panels_and_costs:
        axes.barh(places, values, height=0.6, color=colour)
        axes.set(xlabel=label)
        axes.locator_params(axis="x", nbins=4)
    panels[0].set_yticks(places, names, fontsize=8)
    panels[0].invert_yaxis()
    return inline_svg(figure, f"Cost of training, {title}: {', '.join(names)}")


@rc_context(STYLE)
def drop_figure(records: Sequence[Record], title: str) -> str:
    """Plot SubgraphDrop's cost relative to training on all subgraphs, as an `<svg>`."""
    strategies = list(dict.fromkeys(record["strategy"] for record in records))
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    costs = {"step_seconds": "time", "step_mb": "memory"}
    for axes, (what, name) in zip(panels, costs.items(), strict=True):
        for place, strategy in enumerate(strategies):
            _ratio_line(axes, records, strategy, what, COLOURS[place])
        axes.axhline(1.0, color=COLOURS[-1], lw=1, ls="--")
        axes.set(xlabel="share of subgraphs sampled", title=f"{name} of a step")
        axes.set_xlim(0, 1)
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel("all subgraphs = 1")
    panels[0].legend(fontsize=8)
    figure.suptitle(title, fontsize=11)
    label = f"SubgraphDrop on {title}: time and memory of a step by share sampled"
    return inline_svg(figure, label)


def _ratio_line(
    axes: Axes, records: Sequence[Record], strategy: str, what: str, colour: str
) -> None:
    """Plot a strategy's cost, relative to no sampling, over the share it samples."""
    own = [record for record in records if record["strategy"] == strategy]
    own.sort(key=lambda record: record["share"])
    shares = [record["share"] for record in own]
    ratios = [record[what]["drop"] / record[what]["full"] for record in own]
    axes.plot(shares, ratios, "o-", color=colour, label=strategy, lw=1.6, ms=4)
    for record, share, ratio in zip(own, shares, ratios, strict=True):
        text, point, shift = str(record["min_coverage"]), (share, ratio), (0, 5)
        axes.annotate(
            text, point, shift, textcoords="offset points", fontsize=7, ha="center"
        )


@rc_context(STYLE)
def growth_figure(records: Sequence[Record], what: str) -> str:
    """Plot time per graph and memory over `what`, such as "hops"; return an `<svg>`."""
    lines: dict[str, dict[int, Record]] = {}
    for record in records:
        config = record["config"]
        data = "4-regular" if what == "nodes" else config["data"]["name"]
        path = "" if record["fast"] else ", plain"
        label = f"{data}, {config['model']['name']}, {record['device']}{path}"
        lines.setdefault(label, {})[record["value"]] = record
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    panels = figure.subplots(1, 2)
    names: dict[str, Callable[[Record], float]] = {
        "ms a graph": lambda record: 1e3 / record["graphs_per_second"],
        "peak memory, MB": lambda record: record["peak_memory_mb"] or float("nan"),
    }
    for axes, (name, cost) in zip(panels, names.items(), strict=True):
        for place, (label, points) in enumerate(lines.items()):
            values = sorted(points)
            costs = [cost(points[value]) for value in values]
            colour = COLOURS[place % len(COLOURS)]
            axes.plot(values, costs, "o-", color=colour, label=label, lw=1.6, ms=4)
        if what in ("nodes", "channels"):
            axes.set_xscale("log", base=2)
            axes.set_yscale("log", base=2)
            axes.yaxis.set_major_formatter("{x:g}")
        else:
            axes.set_ylim(bottom=0)
        axes.minorticks_off()
        ticks = sorted({record["value"] for record in records})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set(xlabel=what, title=name)
    panels[0].legend(fontsize=8)
    return inline_svg(figure, f"How time and memory of training grow with {what}")


@rc_context(STYLE)
def extraction_figure(records: Sequence[Record]) -> str:
    """Plot how long gnnak and PyG take to extract egonets; return an `<svg>`."""
    figure = Figure(figsize=(7.2, 0.8 + 0.62 * len(records)), layout="constrained")
    axes = figure.subplots()
    for place, (key, name) in enumerate((("gnnak", "gnnak"), ("pyg", "PyG"))):
        rows = [(y, r) for y, r in enumerate(records) if key in r["seconds"]]
        axes.barh(
            [y + 0.38 * place - 0.19 for y, _ in rows],
            [record["seconds"][key] for _, record in rows],
            height=0.36,
            color=COLOURS[place],
            label=name,
        )
    axes.set_yticks(range(len(records)), [record["case"] for record in records])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set(xlabel="seconds (log)", title="Extraction of egonets")
    axes.legend(fontsize=8)
    return inline_svg(figure, "Seconds to extract egonets, gnnak and PyG")


@rc_context(STYLE)
def egonets_figure() -> str:
    """Plot two 4-regular graphs that 1-WL cannot distinguish, and an egonet of each."""
    figure = Figure(figsize=(7.2, 6.4), layout="constrained")
    grid = figure.subplots(2, 2)
    for row, letter, graph in zip(grid, "AB", four_regular_pair(), strict=True):
        plot_graph(row[0], graph, 0, 1, f"4-regular graph {letter}")
        plot_egonet(row[1], graph, 0, 1, f"rooted subgraph of node 0 in {letter}")
    label = "Two 4-regular graphs and the 1-hop egonet of node 0 in each"
    return inline_svg(figure, label)


def plot_demo(curves: dict[str, list[float]], path: Path) -> None:
    """Plot two 4-regular graphs, an egonet of each, and learning curves to a file."""
    figure = Figure(figsize=(11, 6.2), layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=(1, 1, 1.5))
    for row, (letter, graph) in enumerate(zip("AB", four_regular_pair(), strict=True)):
        left, right = (figure.add_subplot(grid[row, column]) for column in (0, 1))
        plot_graph(left, graph, 0, 1, f"4-regular graph {letter}")
        plot_egonet(
            right, graph, 0, 1, f"rooted subgraph of node 0 in {letter}, by hop"
        )
    last = figure.add_subplot(grid[:, 2])
    plot_curves(last, curves, "share of validation graphs right", "has it a triangle?")
    last.set_ylim(0.0, 1.04)
    save(figure, path)

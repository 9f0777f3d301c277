"""Plots of graphs, rooted subgraphs, learning curves and results."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from gnnak.graphs.named import four_regular_pair
from gnnak.report.markup import COLOURS, inline_svg, page_style
from gnnak.report.pictures import plot_egonet, plot_graph
from gnnak.training.records.results import Record


def curves_figure(
    curves: Mapping[str, Sequence[float]], title: str, label: str, log: bool
) -> str:
    """Plot learning curves (validation score over epoch); return an `<svg>` element.

    Args:
        curves: For each curve, its name in the legend and its score after each epoch.
        title: Title of the figure.
        label: Label of the y-axis.
        log: True for a logarithmic y-axis; ignored if any score is zero or negative.
    """
    with page_style():
        figure, axes = _figure(7.2, 3.6 + 0.1 * len(curves))
        for place, (name, values) in enumerate(curves.items()):
            colour = COLOURS[place % len(COLOURS)]
            epochs = range(1, len(values) + 1)
            axes.plot(epochs, values, label=name, color=colour, lw=1.6)
            axes.plot(len(values), values[-1], "o", color=colour, ms=3)
        every = [value for line in curves.values() for value in line]
        if log and min(every) > 0:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
            few = max(every) < 10 * min(every)  # else labels of minor ticks overlap
            axes.yaxis.set_minor_formatter("{x:g}" if few else NullFormatter())
            axes.tick_params(axis="y", which="minor", labelsize=8)
        axes.set(title=title, xlabel="epoch", ylabel=label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        columns = 1 if max(map(len, curves)) > 40 else 2
        figure.legend(loc="outside lower center", fontsize=8, ncols=columns)
        return inline_svg(figure, f"Learning curves, {title}: {', '.join(curves)}")


def settings_figure(
    names: Sequence[str],
    seconds: Sequence[float],
    megabytes: Sequence[float],
    title: str,
) -> str:
    """Plot the cost of training with several settings; return an `<svg>` element.

    Args:
        names: Names of the settings.
        seconds: Seconds of a training epoch with each setting.
        megabytes: Peak memory of training with each setting, in MB.
        title: Title of the figure.
    """
    with page_style():
        figure = Figure(figsize=(7.2, 1.1 + 0.28 * len(names)), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        places = range(len(names))
        for axes, values, label, colour in zip(
            panels,
            (seconds, megabytes),
            ("seconds an epoch", "peak memory, MB"),
            COLOURS,
            strict=False,
        ):
            axes.barh(places, values, height=0.6, color=colour)
            axes.set(xlabel=label)
            axes.locator_params(axis="x", nbins=4)
        panels[0].set_yticks(places, names, fontsize=8)
        panels[0].invert_yaxis()
        return inline_svg(figure, f"Cost of training, {title}: {', '.join(names)}")


def drop_figure(records: Sequence[Record], title: str) -> str:
    """Plot what SubgraphDrop saves in a training step; return an `<svg>` element.

    The y-axes show time and memory of a step, relative to a step with all subgraphs;
    the x-axis is the fraction of subgraphs that are sampled.

    Args:
        records: JSON records written by `benchmarks/subgraph_drop.py`.
        title: Title of the figure.
    """
    strategies = list(dict.fromkeys(record["strategy"] for record in records))
    with page_style():
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for axes, what, name in zip(
            panels, ("step_seconds", "step_mb"), ("time", "memory"), strict=True
        ):
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
    """Plot the relative cost of one strategy over the fraction of sampled subgraphs.

    There is one point per record of the strategy. A point is labelled with the minimal
    coverage: every node is in at least this many sampled subgraphs. `what` is the cost
    to plot: "step_seconds" or "step_mb".
    """
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


def growth_figure(records: Sequence[Record], what: str) -> str:
    """Plot how time and memory of training grow with one quantity; return an `<svg>`.

    There is one line for each combination of data set, model and device, and separate
    lines for runs with and without fused kernels.

    Args:
        records: JSON records written by `gnnak bench --grow`.
        what: The quantity on the x-axis: nodes, hops, channels or minimal coverage.
    """
    lines: dict[str, dict[int, Record]] = {}
    for record in records:
        lines.setdefault(growth_label(record), {})[record["value"]] = record
    with page_style():
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        panels = figure.subplots(1, 2)
        for axes, name in zip(panels, ("ms a graph", "peak memory, MB"), strict=True):
            for place, (label, points) in enumerate(lines.items()):
                values = sorted(points)
                costs = [_costs(points[value])[name] for value in values]
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


def growth_label(record: Record) -> str:
    """Return the legend entry in `growth_figure` for the line that contains a record.

    The entry names the data set, the model and the device. It ends in "plain" if the
    fused kernels were switched off.
    """
    config = record["config"]
    data = "4-regular" if record["what"] == "nodes" else config["data"]["name"]
    path = "" if record["fast"] else ", plain"
    return f"{data}, {config['model']['name']}, {record['device']}{path}"


def _costs(record: Record) -> dict[str, float]:
    memory = record["peak_memory_mb"]
    return {
        "ms a graph": 1e3 / record["graphs_per_second"],
        "peak memory, MB": float("nan") if memory is None else memory,
    }


def extraction_figure(records: Sequence[Record]) -> str:
    """Plot the time that gnnak and PyG take to extract egonets; return an `<svg>`.

    There are two bars per record: one for gnnak, one for PyG.

    Args:
        records: JSON records written by `benchmarks/extraction.py`, one for each set of
            graphs.
    """
    with page_style():
        figure, axes = _figure(7.2, 0.8 + 0.62 * len(records))
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


def egonets_figure() -> str:
    """Plot two 4-regular graphs that 1-WL cannot distinguish, and an egonet of each.

    Returns:
        The figure, as an `<svg>` element.
    """
    with page_style():
        figure = Figure(figsize=(7.2, 6.4), layout="constrained")
        grid = figure.subplots(2, 2)
        for row, letter, graph in zip(grid, "AB", four_regular_pair(), strict=True):
            plot_graph(row[0], graph, 0, 1, f"4-regular graph {letter}")
            plot_egonet(row[1], graph, 0, 1, f"rooted subgraph of node 0 in {letter}")
        label = "Two 4-regular graphs and the 1-hop egonet of node 0 in each"
        return inline_svg(figure, label)


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()

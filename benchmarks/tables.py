"""Render the tables of the README and docs/ from the records in results/.

A table is the text between `<!-- table: NAME -->` and `<!-- end -->`; do not edit it by
hand. Run `make tables`.
"""

import re
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev

from benchmarks import goals
from benchmarks.drop_tables import drop_long, drop_quality, drop_shares, drop_short
from benchmarks.family import family_costs
from benchmarks.family_results import brec_counts, family_results, zinc_options
from benchmarks.markdown import RESULTS, markdown
from benchmarks.own_loop_tables import captured, ddp, own_loop, published_step
from benchmarks.paper_tables import agreement_summary, filled_table, paper_tables
from gnnak.datasets import find_entry
from gnnak.report.pictures import curves_figure
from gnnak.training.config.experiment import find_config, load_experiment
from gnnak.training.config.options import change
from gnnak.training.records.results import Record, read_records

PAGES = (Path("README.md"), *sorted(Path("docs").glob("*.md")))
ASSETS = Path("docs/assets")
CURVES = {
    "zinc": ("gcn", "gin", "pna*", "gin-ak+", "sswl+-gin"),
    "cifar10": ("gin", "gin-ak+-s"),
    "pattern": ("gin-ak+",),
}
"""The networks whose learning curves are plotted, by experiment."""
BLOCK = 5
"""`agreement` compares learning curves by means over this number of epochs."""


def latest(records: list[Record], key: str) -> list[Record]:
    """Return the newest record for each value of the field `key`.

    Args:
        records: JSON records, oldest first.
        key: Name of the field, such as "case".
    """
    newest = {record[key]: record for record in records}
    return list(newest.values())


def extraction() -> str:
    """Render time and memory of egonet extraction, with gnnak and with PyG."""
    rows = []
    for record in latest(read_records(RESULTS / "extraction.jsonl"), "case"):
        taken, peak = record["seconds"], record["peak_mb"]
        cells = [
            f"{taken[name]:.3f} s, {peak[name]:.0f} MB" if name in taken else "-"
            for name in ("gnnak", "pyg")
        ]
        ratio = f"{taken['pyg'] / taken['gnnak']:.0f} x" if "pyg" in taken else "-"
        rows.append([record["case"], *cells, ratio])
    return markdown(
        ["graphs, hops k", "gnnak", "PyG `RootedEgoNets`", "speed-up"], rows
    )


def bench() -> str:
    """Render time and memory of an epoch on a GPU: published code, goals, our code."""
    return markdown(goals.HEADER, goals.lines(read_records(RESULTS / "bench.jsonl")))


def bench_short() -> str:
    """Render the epochs that the published code was measured on, too."""
    rows = goals.short_lines(read_records(RESULTS / "bench.jsonl"))
    header = ["one epoch of", "authors' code", "gnnak", "gnnak, bf16"]
    count = len(header) if any(row[-1] for row in rows) else len(header) - 1
    return markdown(header[:count], [row[:count] for row in rows])


def cpu() -> str:
    """Render the processor time of training on one CPU core."""
    records = latest(read_records(RESULTS / "cpu.jsonl"), "case")
    plain = records[0]["milliseconds"]
    rows = [
        [
            f"`{r['case']}`",
            f"{r['milliseconds']:.1f} ms",
            f"{r['milliseconds'] / plain:.0f} x",
            f"{r['milliseconds'] * 10 / 60:.1f} min",
        ]
        for r in records
    ]
    header = ["network", "per molecule", f"of `{records[0]['case']}`"]
    return markdown([*header, "epoch of 10 000 molecules"], rows)


def traffic() -> str:
    """Render the bytes that a training step moves on a GPU."""
    records = read_records(RESULTS / "traffic.jsonl")
    header = ["one step of", "kernels", "bytes", "bytes / time"]
    header += ["kernels of an epoch", "bytes of an epoch at 4.8 TB/s", "goal"]
    return markdown(header, goals.traffic_lines(records))


def operations() -> str:
    """Render the slowest operations of a training step and the bytes they move."""
    records = read_records(RESULTS / "traffic.jsonl")
    names = ("zinc-ak-bf16", "zinc-sswl-bf16", "cifar-ak-bf16", "cifar-pna-bf16")
    header = ["one step of", "operation", "calls", "time", "bytes"]
    header += ["bytes / time", "share of the time"]
    return markdown(header, goals.operation_lines(records, names))


def agreement() -> str:
    """Render the learning curves of GIN-AK+ on ZINC with and without `--plain`.

    Every number is a mean over `BLOCK` epochs. The columns of the full runs, which have
    different seeds, show the lowest and the highest of their means.
    """
    pair = {r["fast"]: r["curves"] for r in read_records(RESULTS / "agreement.jsonl")}
    full = [r["curves"] for r in read_records(RESULTS / "runs.jsonl") if _is_zinc(r)]
    rows = []
    for first in range(0, len(pair[False]["validation"]) - BLOCK + 1, BLOCK):
        row = [f"{first + 1} to {first + BLOCK}"]
        for of in ("train_loss", "validation"):
            runs = [pair[True], pair[False], *full]
            fast, plain, *seeds = (
                fmean(curves[of][first : first + BLOCK]) for curves in runs
            )
            span = f"{min(seeds):.3f} to {max(seeds):.3f}"
            row += [f"{fast:.3f}", f"{plain:.3f}", span]
        rows.append(row)
    header = [
        f"{of}, {path}"
        for of in ("training loss", "validation MAE")
        for path in ("fast", "plain", "full runs")
    ]
    return markdown(["epochs", *header], rows)


def curves(experiment: str) -> str:
    """Plot validation scores over epochs, one run of each network; return an SVG."""
    entry = load_experiment(experiment)
    names = {entry.config_for(name).cell(): name for name in CURVES[experiment]}
    if entry.best:
        _, config = find_config(experiment, {}, {}, best=True)
        names[config.cell()] = "--best"
    runs = {
        names[record["cell"]]: record
        for record in reversed(read_records(RESULTS / "runs.jsonl"))
        if record["cell"] in names and record["config"]["train"]["seed"] == 0
    }
    lines = {name: runs[name]["curves"]["validation"] for name in names.values()}
    info = find_entry(experiment).info
    log = info.metric == "mae"
    return curves_figure(lines, info.title, f"validation {info.metric}", log)


def _is_zinc(record: Record) -> bool:
    return record["cell"] == load_experiment("zinc").config.cell()


def precision_scores() -> str:
    """Render the test scores of networks that were trained in bf16 and in float32."""
    records = read_records(RESULTS / "runs.jsonl")
    precision = [r["config"]["train"]["precision"] for r in records]
    named = [(r["experiment"], r["config"]["model"]["name"]) for r in records]
    rows = []
    for experiment, model in sorted(
        {name for name, kind in zip(named, precision, strict=True) if kind == "bf16"}
    ):
        entry = load_experiment(experiment)
        row = [f"`{experiment}`, `{model}`"]
        for kind in ("32", "bf16"):
            config = change(entry.config_for(model), {"train.precision": kind})
            scores = [
                r["scores"]["test"] for r in records if r["cell"] == config.cell()
            ]
            spread = f" ± {stdev(scores):.4f}" if len(scores) > 1 else ""
            row += [f"{fmean(scores):.4f}{spread}", str(len(scores))]
        rows.append(row)
    header = ["data set, network", "float32", "runs", "bf16", "runs"]
    return markdown(header, rows)


def dataset_statistics() -> str:
    """Render the statistics of the data sets, with the paper's numbers in brackets."""
    filled = filled_table("datasets")
    return markdown(["data set", *filled.header[1:]], filled.body)


def wl_small() -> str:
    """Render how many pairs of small graphs each Weisfeiler-Leman test fails on."""
    records = [r for r in read_records(RESULTS / "wl.jsonl") if r["kind"] == "small"]
    rows = [
        [f"`{r['case']}`", str(r["fails"]), *map(str, r["fails_by_size"][4:])]
        for r in latest(records, "case")
    ]
    header = ["test", "pairs not distinguished", "5 nodes", "6 nodes", "7 nodes"]
    return markdown(header, rows)


def wl_speed() -> str:
    """Render the run times of the Weisfeiler-Leman tests, with our goals."""
    records = [r for r in read_records(RESULTS / "wl.jsonl") if r["kind"] == "speed"]
    rows = [
        [
            r["graphs"],
            f"`{r['test']}`",
            f"{r['seconds']:.2f}",
            "" if r["goal"] is None else f"{r['goal']:g}",
        ]
        for r in latest(records, "case")
    ]
    return markdown(["graphs", "test", "seconds", "goal"], rows)


def large_graph() -> str:
    """Render seeds per second and memory of `benchmarks.large_graph`."""
    found = {
        (r["nodes"], r["case"]): r
        for r in read_records(RESULTS / "large_graph.jsonl")
        if "reason" not in r
    }
    rows = [
        [
            f"{nodes:,}",
            case if "uplifted" in case else f"{case}, plain",
            f"{r['seeds_per_second']:,.0f}",
            f"{r['peak_mb']:.0f} MB",
        ]
        for (nodes, case), r in found.items()
    ]
    header = ["nodes", "mode, model", "seeds per second", "memory"]
    return markdown(header, rows)


PUBLISHED_NODES = {
    "minesweeper": "97.86, GCN",
    "tolokers": "85.15, Polynormer",
    "computers": "94.09, tuned GNNs",
    "coauthor-physics": "97.46, GCN",
}
"""The best published scores for node classification that we know, by data set."""


def node_scores() -> str:
    """Render test scores of plain and uplifted networks on one graph."""
    records = read_records(RESULTS / "nodes.jsonl")
    rows = []
    for name, published in PUBLISHED_NODES.items():
        row = [f"`{name}`", find_entry(name).info.metric, published]
        for model in ("gcn", "gcn-ak+"):
            scores = [
                100 * r["scores"]["test"]
                for r in records
                if (r["experiment"], r["config"]["model"]["name"]) == (name, model)
            ]
            row.append(f"{fmean(scores):.2f} ± {stdev(scores):.2f} ({len(scores)})")
        rows.append(row)
    return markdown(["graph", "metric", "published", "GCN", "GCN-AK+"], rows)


def faults() -> str:
    """Render how the faults of the newest `make faults` ended."""
    records = read_records(RESULTS / "faults.jsonl")
    counts = records[-1]["counts"] if records else {}
    names = ("tried", "survived", "lost", "wrong")
    rows = [[kind, *(str(of[name]) for name in names)] for kind, of in counts.items()]
    return markdown(["fault", *names], rows)


TABLES: dict[str, Callable[[], str]] = {
    table.__name__: table
    for table in (
        extraction,
        family_costs,
        family_results,
        brec_counts,
        zinc_options,
        bench,
        bench_short,
        cpu,
        traffic,
        operations,
        precision_scores,
        agreement,
        drop_short,
        drop_long,
        drop_shares,
        drop_quality,
        dataset_statistics,
        wl_small,
        wl_speed,
        agreement_summary,
        faults,
        large_graph,
        node_scores,
        own_loop,
        ddp,
        published_step,
        captured,
    )
} | paper_tables()


def render(text: str) -> str:
    """Return the text of a page with every marked table rendered anew."""

    def table(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- table: {name} -->\n{TABLES[name]()}\n<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->.*?<!-- end -->", table, text, flags=re.DOTALL)


def main() -> None:
    """Render the tables of the README and of docs/, and the learning curves."""
    for page in PAGES:
        page.write_text(render(page.read_text("utf-8")), "utf-8")
        print(page)
    for experiment in CURVES:
        (ASSETS / f"curves-{experiment}.svg").write_text(curves(experiment) + "\n")


if __name__ == "__main__":
    main()

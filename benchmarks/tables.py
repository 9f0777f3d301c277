"""Render the tables of README and docs from results/: figures are never typed.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. Run `make tables`.
"""

import re
from collections.abc import Callable
from pathlib import Path

from benchmarks import goals
from gnnak.report.lookup import RunRecords
from gnnak.report.paper import load_table, table_names
from gnnak.report.tables import fill_from_folder, fill_table
from gnnak.training.results import Record, read_records

PAGES = (Path("README.md"), *sorted(Path("docs").glob("*.md")))
RESULTS = Path("results")
PUBLISHED_SHARES = {
    ("min-set-cover", 1): 0.15,
    ("min-set-cover", 3): 0.41,
    ("min-set-cover", 5): 0.71,
    ("farthest", 1): 0.19,
    ("farthest", 2): 0.41,
    ("farthest", 3): 0.66,
    ("farthest", 5): 0.93,
}
"""Shares of roots that the published samplers keep on ZINC with 3-hop egonets."""


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; all columns but the first are right-aligned."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def latest(records: list[Record], key: str) -> list[Record]:
    """The newest record of every value of `key`, in order of first appearance."""
    newest = {record[key]: record for record in records}
    return list(newest.values())


def extraction() -> str:
    """Ours against PyG's transform: seconds, memory and the ratio of times."""
    rows = []
    for record in latest(read_records(RESULTS / "extraction.jsonl"), "case"):
        taken, peak = record["seconds"], record["peak_mb"]
        cells = [
            f"{taken[name]:.3f} s, {peak[name]:.0f} MB" if name in taken else "-"
            for name in ("gnnak", "pyg")
        ]
        ratio = f"{taken['pyg'] / taken['gnnak']:.0f} x" if "pyg" in taken else "-"
        rows.append([record["case"], *cells, ratio])
    return markdown(["egonets of", "gnnak", "PyG `RootedEgoNets`", "faster"], rows)


def bench() -> str:
    """Epochs on a GPU beside the published code and the goals."""
    return markdown(goals.HEADER, goals.lines(read_records(RESULTS / "bench.jsonl")))


def kernels() -> str:
    """What the steps of GIN-AK+ are made of on a GPU."""
    records = read_records(RESULTS / "bench.jsonl")
    rows = goals.kernel_lines(records, ("zinc-ak", "cifar-ak"))
    return markdown(["a step of", "kernel", "calls", "time", "of all kernels"], rows)


def _drops() -> list[Record]:
    """The newest record of every data set, device, strategy and R."""
    records = read_records(RESULTS / "subgraph_drop.jsonl")
    keys = ("case", "device", "strategy", "min_coverage")
    return list({tuple(r[k] for k in keys): r for r in records}.values())


def _drop_row(record: Record) -> list[str]:
    seconds, memory = record["step_seconds"], record["step_mb"]
    sampling = record["plan_seconds"] + record["draw_seconds"]
    return [
        f"{record['share']:.0%}",
        f"{record['coverage']:.1f}",
        f"{1e3 * sampling:.0f} ms",
        f"{1e3 * seconds['drop']:.0f} / {1e3 * seconds['full']:.0f} ms",
        f"{seconds['drop'] / seconds['full']:.2f}",
        f"{memory['drop'] / memory['full']:.2f}",
    ]


DROP_HEADER = ["kept", "covered", "sampling", "step / full", "time", "memory"]


def drop_short() -> str:
    """SubgraphDrop with R=3: steps and memory beside full mode."""
    rows = [
        [f"{r['case']}, {r['device']}", r["strategy"], *_drop_row(r)]
        for r in _drops()
        if r["min_coverage"] == 3
    ]
    return markdown(["R = 3", "strategy", *DROP_HEADER], rows)


def drop_long() -> str:
    """SubgraphDrop for every R."""
    rows = [
        [
            f"{r['case']}, {r['device']}",
            r["strategy"],
            str(r["min_coverage"]),
            *_drop_row(r),
        ]
        for r in _drops()
    ]
    return markdown(["data", "strategy", "R", *DROP_HEADER], rows)


def drop_shares() -> str:
    """Shares of roots kept on ZINC beside the published ones."""
    shares = {
        (r["strategy"], r["min_coverage"]): r["share"]
        for r in _drops()
        if r["case"] == "ZINC molecules" and r["real"]
    }
    rows = []
    for strategy in ("random", "farthest", "min-set-cover"):
        cells = []
        for wanted in range(1, 6):
            ours = shares.get((strategy, wanted))
            theirs = PUBLISHED_SHARES.get((strategy, wanted))
            cell = "" if ours is None else f"{ours:.0%}"
            cells.append(cell if theirs is None else f"{cell} ({theirs:.0%})")
        rows.append([strategy, *cells])
    return markdown(["kept (published)", *(f"R={r}" for r in range(1, 6))], rows)


def drop_quality() -> str:
    """Test error of models trained with all subgraphs and with SubgraphDrop."""
    runs: dict[tuple, dict[bool, Record]] = {}
    for record in read_records(RESULTS / "drop_quality.jsonl"):
        model = record["model"].removesuffix("-s")
        key = (record["target"], model, record["epochs"], record["seed"])
        key += (record["device"],)
        runs.setdefault(key, {})[record["drop"] is not None] = record
    rows = []
    for (target, model, epochs, *_), pair in runs.items():
        if len(pair) < 2:
            continue
        full, few = pair[False]["test_mae"], pair[True]["test_mae"]
        change = f"{few / full - 1:+.0%}"
        rows.append([target, model, str(epochs), f"{full:.4f}", f"{few:.4f}", change])
    header = ["task", "model", "epochs", "all subgraphs", "SubgraphDrop R=3", "error"]
    return markdown(header, rows)


def reproduced() -> str:
    """Every cell of the paper's tables that was run, each setting once."""
    records, rows, seen = RunRecords.read(RESULTS), [], set()
    for name in table_names():
        for line in fill_table(load_table(name), records).rows:
            for filled in line:
                plan, found = filled.cell.plan, filled.summary
                if plan is None or found is None or plan.config.cell() in seen:
                    continue
                seen.add(plan.config.cell())
                title = [filled.cell.column, filled.cell.row]
                paper = filled.cell.paper or ""
                note = found.note or f"all {found.runs}"
                rows.append([*title, filled.ours, paper, note])
    return markdown(["task", "model", "ours", "paper", "runs"], rows)


def dataset_statistics() -> str:
    """The data sets in figures, beside the paper's."""
    filled = fill_from_folder(load_table("datasets"), RESULTS)
    return markdown(filled.header, filled.body)


def wl_small() -> str:
    """On how many pairs of the small connected graphs each WL test fails."""
    records = [r for r in read_records(RESULTS / "wl.jsonl") if r["kind"] == "small"]
    rows = [
        [f"`{r['case']}`", str(r["fails"]), *map(str, r["fails_by_size"][4:])]
        for r in latest(records, "case")
    ]
    return markdown(["test", "fails on", "5 nodes", "6 nodes", "7 nodes"], rows)


def wl_speed() -> str:
    """Seconds of the WL tests."""
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


TABLES: dict[str, Callable[[], str]] = {
    table.__name__: table
    for table in (
        extraction,
        bench,
        kernels,
        drop_short,
        drop_long,
        drop_shares,
        drop_quality,
        reproduced,
        dataset_statistics,
        wl_small,
        wl_speed,
    )
}


def render(text: str) -> str:
    """The text with every marked table made anew."""

    def table(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- table: {name} -->\n{TABLES[name]()}\n<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->.*?<!-- end -->", table, text, flags=re.DOTALL)


def main() -> None:
    """Rewrite the tables of the README and of docs/."""
    for page in PAGES:
        page.write_text(render(page.read_text("utf-8")), "utf-8")
        print(page)


if __name__ == "__main__":
    main()

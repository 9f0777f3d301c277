"""The HTML page that the command `gnnak report` writes, section by section."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gnnak.errors import GnnakError, counted
from gnnak.graphs.readers.files import write_bytes
from gnnak.models.factory import parse_name
from gnnak.report import markup, plots
from gnnak.report.cells import load_table, table_names
from gnnak.report.lookup import RunRecords
from gnnak.report.statistics import read_statistics
from gnnak.report.tables import FilledTable, fill_tables
from gnnak.report.your_runs import FEW, your_runs_section
from gnnak.training.config.experiment import experiment_names, load_experiment
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.records import schema
from gnnak.training.records.results import Record, environment, read_records

HEADER = ["Run", "Device", "Path", "Seconds an epoch", "Peak MB", "Graphs a second"]


def costs_section(records: Sequence[Record]) -> str:
    """Return the HTML section on the time and memory of a training epoch.

    The section has a table with the newest measurement of each model on each data set
    and device, and plots of time and memory against a growing quantity, such as the
    number of channels.

    Args:
        records: JSON records written by `gnnak bench`, oldest first. Records of kind
            "bench" go into the table, those of kind "growth" (from `gnnak bench
            --grow`) into the plots.
    """
    parts = []
    measured = [record for record in records if record.get("kind") == "bench"]
    if measured:
        rows = list({(key := _row(r))[:3]: key for r in measured}.values())
        table = markup.plain_table("What an epoch costs", HEADER, rows)
        note = "Epochs that were measured on a part of the graphs are scaled to all."
        parts += [table, markup.paragraph(note, soft=True)]
    growths: dict[str, list[Record]] = {}
    for record in records:
        if record.get("kind") == "growth":
            growths.setdefault(record["what"], []).append(record)
    if growths:
        parts.append(markup.heading("How cost grows", "growth"))
        figures = [
            markup.figure(plots.growth_figure(of, what), f"Training, by {what}.")
            for what, of in growths.items()
        ]
        parts.append(markup.gallery(figures))
    if not parts:
        parts = [markup.paragraph("Nothing has been measured yet.", soft=True)]
    return markup.section("cost", "What an epoch costs", parts)


def _row(record: Record) -> tuple[str, ...]:
    config, memory = record["config"], record["peak_memory_mb"]
    data, model = config["data"], config["model"]
    words = [data["name"], data["target"], model["name"]]
    form = parse_name(model["name"])
    if form.sampled:
        words.append(f"R = {model['drop']['min_coverage']}")
    elif form.uplifted and (model["subgraphs"]["kind"] or form.kind) == "egonets":
        words.append(f"k = {model['subgraphs']['num_hops']}")
    return (
        ", ".join(word for word in words if word),
        record["device"],
        "fast" if record["fast"] else "plain",
        f"{record['seconds']['epoch']:.3g}",
        "" if memory is None else f"{memory:,.0f}",
        f"{record['graphs_per_second']:,.0f}",
    )


MOST_CURVES = 6
"""Maximal number of learning curves in one figure of the report."""


def tables_section(tables: Sequence[FilledTable]) -> str:
    """Return the HTML section with the paper's tables, filled with our numbers."""
    parts = []
    for filled in tables:
        name, caption = filled.table.name, filled.table.caption
        parts += [
            markup.heading(caption, f"table-{name}"),
            markup.paragraph(f"gnnak table {name}", soft=True),
            markup.filled_table(filled),
            markup.notes(filled.remarks),
        ]
    return markup.section("tables", "The paper's tables", parts)


def curves_section(records: Sequence[Record]) -> str:
    """Return the HTML section with the learning curves of runs for the paper's tables.

    There is one figure per task (data set, target and evaluation protocol). A figure
    shows the newest run of each config, for at most `MOST_CURVES` configs.
    """
    tasks: dict[str, dict[str, Record]] = {}
    for record in records:
        if record.get("curves", {}).get("validation"):
            tasks.setdefault(_task(record), {})[record["cell"]] = record
    figures = []
    for task, newest in tasks.items():
        shown = list(newest.values())[-MOST_CURVES:]
        metric = shown[-1]["metric"]
        curves = {_label(r): r["curves"]["validation"] for r in shown}
        svg = plots.curves_figure(
            curves, task, f"validation {metric}", shown[-1]["lower_is_better"]
        )
        left = len(newest) - len(shown)
        more = f" {left} older settings are left out." if left else ""
        caption = f"{task}: validation {metric} by epoch, one run a setting.{more}"
        figures.append(markup.figure(svg, caption))
    parts = [markup.gallery(figures)]
    if not figures:
        text = "Learning curves of your own runs are at the top of this page."
        parts = [markup.paragraph(text, soft=True)]
    return markup.section("curves", "Learning curves", parts)


def drop_section(steps: Sequence[Record], quality: Sequence[Record]) -> str:
    """Return the HTML section on what SubgraphDrop saves, and on its test error.

    Args:
        steps: Records written by `benchmarks/subgraph_drop.py`: time and memory of
            training steps with and without SubgraphDrop.
        quality: Records written by `benchmarks/drop_quality.py`: test errors of models
            trained with and without SubgraphDrop.
    """
    keys = ("case", "device", "strategy", "min_coverage")
    newest = {tuple(record[key] for key in keys): record for record in steps}
    groups: dict[str, list[Record]] = {}
    for record in newest.values():
        groups.setdefault(f"{record['case']}, {record['device']}", []).append(record)
    caption = (
        "Each point is labelled with R, the minimal number of sampled subgraphs that "
        "cover a node; the dashed line is training with all subgraphs."
    )
    figures = [
        markup.figure(plots.drop_figure(records, title), f"{title}. {caption}")
        for title, records in groups.items()
    ]
    parts = [markup.gallery(figures)] if figures else []
    if rows := _quality_rows(quality):
        header = ["Task", "Model", "Epochs", "All subgraphs", "SubgraphDrop", "Error"]
        parts.append(markup.heading("Test error with all subgraphs and with a few"))
        parts.append(markup.plain_table("Error with SubgraphDrop", header, rows))
    if not parts:
        parts = [markup.paragraph("Nothing has been measured yet.", soft=True)]
    return markup.section("subgraph-drop", "SubgraphDrop: the trade-off", parts)


def pictures_section() -> str:
    """Return the HTML section with a picture of two graphs and an egonet of each."""
    caption = (
        "Message passing sees the same in both graphs, four neighbours everywhere; the "
        "egonets of node 0 differ. Colours are hops from the root."
    )
    parts = [markup.figure(plots.egonets_figure(), caption)]
    return markup.section("subgraphs", "Rooted subgraphs", parts)


def extraction_section(records: Sequence[Record]) -> str:
    """Return the HTML section on how long gnnak and PyG take to extract egonets.

    Args:
        records: Records written by `benchmarks/extraction.py`, oldest first; the newest
            record for each set of graphs is used.
    """
    newest = list({record["case"]: record for record in records}.values())
    if not newest:
        parts = [markup.paragraph("Nothing has been measured yet.", soft=True)]
        return markup.section("extraction", "Extraction speed", parts)
    rows = []
    for record in newest:
        taken = record["seconds"]
        theirs = f"{taken['pyg']:.3f}" if "pyg" in taken else ""
        ratio = f"{taken['pyg'] / taken['gnnak']:.0f} x" if "pyg" in taken else ""
        rows.append([record["case"], f"{taken['gnnak']:.3f}", theirs, ratio])
    header = ["Egonets of", "gnnak (s)", "PyG RootedEgoNets (s)", "Faster"]
    parts = [
        markup.figure(plots.extraction_figure(newest), "Shorter is better."),
        markup.plain_table("Extraction speed", header, rows),
    ]
    return markup.section("extraction", "Extraction speed", parts)


def environment_section(records: Iterable[Record]) -> str:
    """Return the HTML section on the machines and software that made the records.

    The table has one row for each combination of device, git commit and package
    versions, with the number of records.
    """
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        versions = record.get("versions", {})
        key = (
            f"{record.get('device', '?')}, {record.get('cores', '?')} cores",
            str(record.get("commit") or "unknown"),
            ", ".join(f"{name} {number}" for name, number in versions.items()),
        )
        groups.setdefault(key, []).append(record)
    rows = [
        [*key, str(len(group)), max(str(r.get("time", "")) for r in group)]
        for key, group in groups.items()
    ]
    header = ["Device", "Commit", "Versions", "Records", "Newest"]
    parts = [markup.plain_table("Versions", header, rows)]
    return markup.section("versions", "Versions and machines", parts)


def _task(record: Record) -> str:
    """Return the task of a run as text: data set, target and evaluation protocol.

    The evaluation protocol says how the data set is split and scored. The usual
    protocol, "split", is omitted.
    """
    data = record["config"]["data"]
    words = [data["name"], data.get("target"), data["protocol"]]
    return ", ".join(word for word in words if word and word != "split")


def _label(record: Record) -> str:
    """Return the legend entry of a run: the model, then its settings in brackets.

    Only settings that differ from the experiment's YAML file are listed. If the config
    has options that no longer exist, its hash is given instead of the settings.
    """
    options: dict[str, Any] = record["config"]
    name, settings = str(options["model"]["name"]), []
    experiment = record.get("experiment") or options["data"]["name"]
    try:
        config = change(RunConfig(), options)
        if experiment in experiment_names():
            settings = load_experiment(experiment).settings(config)
    except GnnakError:
        return f"{name} ({record['hash']})"
    known = ("model.name=", "train.seed=", "data.")
    shown = [text for text in settings if not text.startswith(known)]
    return f"{name} ({', '.join(shown)})" if shown else name


def _quality_rows(records: Sequence[Record]) -> list[list[str]]:
    runs: dict[tuple[Any, ...], dict[bool, Record]] = {}
    for record in records:
        model = parse_name(record["model"]).unsampled_name
        same = [record[name] for name in ("target", "epochs", "seed")]
        key = (*same, model, record.get("device"))
        runs.setdefault(key, {})[record.get("drop") is not None] = record
    # One row for each pair of runs that are the same except for SubgraphDrop.
    rows = []
    for (target, epochs, _, model, _), pair in runs.items():
        if len(pair) == 2:
            full, few = pair[False]["test_mae"], pair[True]["test_mae"]
            figures = [f"{full:.4f}", f"{few:.4f}", f"{few / full - 1:+.0%}"]
            rows.append([str(target), str(model), str(epochs), *figures])
    return rows


TITLE = "gnnak: your runs, and the paper's tables"
CONTENTS = (
    ("your-runs", "Your runs"),
    ("tables", "The paper's tables"),
    ("curves", "Learning curves"),
    ("subgraph-drop", "SubgraphDrop"),
    ("subgraphs", "Rooted subgraphs"),
    ("extraction", "Extraction speed"),
    ("cost", "What an epoch costs"),
    ("versions", "Versions"),
)


def report_page(results: Path, own_runs: Path | None = None) -> str:
    """Return the HTML report on all JSON records in a results folder.

    Styles and figures are inline: the page loads no other file.

    Args:
        results: Folder with the JSON records of all results.
        own_runs: Folder with the records of runs on the user's own data; None = none.
    """
    runs = RunRecords.read(results, *([] if own_runs is None else [own_runs]))
    statistics = read_statistics(results)
    tables = fill_tables(map(load_table, table_names()), runs, statistics)
    drops = read_records(results / "subgraph_drop.jsonl", schema.DROP)
    quality = read_records(results / "drop_quality.jsonl", schema.QUALITY)
    extraction = read_records(results / "extraction.jsonl", schema.EXTRACTION)
    bench = read_records(results / "bench.jsonl")
    everything = [*runs.records, *drops, *quality, *extraction, *bench]
    own, paper = _own_and_paper(tables, runs)
    return markup.page(
        TITLE,
        [
            _header(tables, own),
            "<main>",
            your_runs_section(own, paper),
            tables_section(tables),
            curves_section(paper),
            drop_section(drops, quality),
            pictures_section(),
            extraction_section(extraction),
            costs_section(bench),
            environment_section(everything),
            "</main>",
        ],
    )


def write_report(results: Path, out: Path, own_runs: Path | None = None) -> None:
    """Write the HTML report on all results to a file, atomically.

    Args:
        results: Folder with the JSON records of all results.
        out: HTML file to write; its folder is created if it does not exist.
        own_runs: Folder with the records of runs on the user's own data; None = none.

    Raises:
        FileFormatError: If the file cannot be written.
    """
    content = report_page(results, own_runs).encode()
    out.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(out, content)


def _own_and_paper(
    tables: list[FilledTable], runs: RunRecords
) -> tuple[list[Record], list[Record]]:
    """Divide the records of runs: the user's own, and those for the paper's tables.

    A run is for the paper's tables if its settings are those of a table cell, up to its
    length. With at most `FEW` such runs, all runs count as the user's own.
    """
    plans = [cell.plan for filled in tables for cell in filled.table.cells()]
    found = [runs.any_length(plan.config) for plan in plans if plan]
    of_tables = {id(record) for records in found for record in records}
    if len(of_tables) <= FEW:
        return runs.records, []
    paper = [record for record in runs.records if id(record) in of_tables]
    return [r for r in runs.records if id(r) not in of_tables], paper


def _header(tables: list[FilledTable], own: list[Record]) -> str:
    cells = [cell for t in tables for row in t.rows for cell in row if cell.cell.plan]
    done = sum(1 for cell in cells if cell.ours)
    now = environment()
    line = (
        f"{counted(len(own), 'run')} of your own; {done} of {len(cells)} cells of the "
        "paper's tables have a figure of ours. "
        f"Made {now['time']} by gnnak {now['versions']['gnnak']}"
        f" ({now['commit'] or 'unknown commit'})."
    )
    targets = [*CONTENTS, *((f"table-{t.table.name}", t.table.name) for t in tables)]
    parts = [
        "<header>",
        f"<h1>{markup.escape(TITLE)}</h1>",
        markup.paragraph(line, soft=True),
        markup.links(targets),
        "</header>",
    ]
    return "\n".join(parts)

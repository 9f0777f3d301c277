"""The HTML page that the command `gnnak report` writes, with all results."""

from __future__ import annotations

from pathlib import Path

from gnnak.errors import counted
from gnnak.graphs.readers.files import write_bytes
from gnnak.report import costs, markup, sections
from gnnak.report.lookup import RunRecords
from gnnak.report.paper import load_table, table_names
from gnnak.report.statistics import read_statistics
from gnnak.report.tables import FilledTable, fill_tables
from gnnak.report.your_runs import FEW, your_runs_section
from gnnak.training.records import schema
from gnnak.training.records.results import Record, environment, read_records

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
            sections.tables_section(tables),
            sections.curves_section(paper),
            sections.drop_section(drops, quality),
            sections.pictures_section(),
            sections.extraction_section(extraction),
            costs.costs_section(bench),
            sections.environment_section(everything),
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

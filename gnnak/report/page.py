"""The HTML page that the command `gnnak report` writes, with all results."""

from __future__ import annotations

from pathlib import Path

from gnnak.graphs.readers.files import write_bytes
from gnnak.report import costs, markup, sections
from gnnak.report.lookup import RunRecords
from gnnak.report.paper import load_table, table_names
from gnnak.report.statistics import read_statistics
from gnnak.report.tables import FilledTable, fill_table
from gnnak.training.records import schema
from gnnak.training.records.results import Record, environment, read_records

TITLE = "GNN-AK: our figures and the paper's"
CONTENTS = (
    ("tables", "Tables"),
    ("curves", "Learning curves"),
    ("subgraph-drop", "SubgraphDrop"),
    ("subgraphs", "Rooted subgraphs"),
    ("extraction", "Extraction speed"),
    ("cost", "What an epoch costs"),
    ("versions", "Versions"),
)


def report_page(results: Path) -> str:
    """Return the HTML report on all JSON records in a results folder.

    Styles and figures are inline: the page loads no other file.
    """
    runs = RunRecords.read(results)
    statistics = read_statistics(results)
    tables = [fill_table(load_table(n), runs, statistics) for n in table_names()]
    drops = read_records(results / "subgraph_drop.jsonl", schema.DROP)
    quality = read_records(results / "drop_quality.jsonl", schema.QUALITY)
    extraction = read_records(results / "extraction.jsonl", schema.EXTRACTION)
    bench = read_records(results / "bench.jsonl")
    everything = [*runs.records, *drops, *quality, *extraction, *bench]
    return markup.page(
        TITLE,
        [
            _header(tables, runs.records),
            "<main>",
            sections.tables_section(tables),
            sections.curves_section(runs),
            sections.drop_section(drops, quality),
            sections.pictures_section(),
            sections.extraction_section(extraction),
            costs.costs_section(bench),
            sections.environment_section(everything),
            "</main>",
        ],
    )


def write_report(results: Path, out: Path) -> None:
    """Write the HTML report on all results to a file, atomically.

    Args:
        results: Folder with the JSON records of all results.
        out: HTML file to write; its folder is created if it does not exist.

    Raises:
        FileFormatError: If the file cannot be written.
    """
    content = report_page(results).encode()
    out.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(out, content)


def _header(tables: list[FilledTable], runs: list[Record]) -> str:
    cells = [cell for t in tables for row in t.rows for cell in row if cell.cell.plan]
    done = sum(1 for cell in cells if cell.ours)
    now = environment()
    line = (
        f"{done} of {len(cells)} cells have a figure of ours, from {len(runs)} runs. "
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

"""`gnnak datasets`: which data sets there are, what is in them, and getting them."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gnnak.cli.loading import loading
from gnnak.datasets import (
    DATASETS,
    Description,
    cache_dir,
    describe_dataset,
    find_entry,
)
from gnnak.datasets.describe import agrees, whereabouts

LIST_EXAMPLES = """
Examples:

    gnnak datasets list

    gnnak datasets list --data-dir data --json
"""
DESCRIBE_EXAMPLES = """
Examples:

    gnnak datasets describe

    gnnak datasets describe zinc counting --data-dir data

    gnnak datasets describe sr25 --json
"""
PREPARE_EXAMPLES = """
Examples:

    gnnak datasets prepare pattern properties

    gnnak datasets prepare zinc --json
"""
NOT_AT_HAND = ("download", "file only")

Folder = Annotated[
    Path | None,
    typer.Option(help="Folder with data files; else GNNAK_DATA, then the cache."),
]
Seed = Annotated[int, typer.Option(min=0, help="Fixes what is generated.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

app = typer.Typer(
    help="The data sets: list, describe, prepare.",
    epilog=LIST_EXAMPLES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


@app.command(name="list", epilog=LIST_EXAMPLES)
def list_datasets(data_dir: Folder = None, as_json: Json = False) -> None:
    """Show all data sets, what they ask, and where they would come from."""
    rows = [
        {
            "name": entry.name,
            "title": entry.info.title,
            "description": entry.description,
            "task": entry.info.task,
            "metric": entry.info.metric,
            "targets": entry.targets,
            "protocols": entry.info.protocols,
            "from": whereabouts(entry, data_dir),
        }
        for entry in DATASETS.values()
    ]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    console, columns = Console(), ("name", "title", "task", "metric", "from")
    table = Table(*columns)
    for row in rows:
        table.add_row(*(str(row[column]) for column in columns))
    console.print(table)
    for entry in DATASETS.values():
        if entry.targets:
            told = f"targets of {entry.name}: {', '.join(entry.targets)}"
            console.print(told, highlight=False)


@app.command(epilog=DESCRIBE_EXAMPLES)
def describe(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets.")] = None,
    seed: Seed = 0,
    data_dir: Folder = None,
    as_json: Json = False,
) -> None:
    """Measure data sets, beside the figures that the paper prints.

    Without names, all that are at hand or can be built. Means are over the
    graphs that the paper's are over.
    """
    entries = [find_entry(name) for name in names or ()]
    if not names:
        where = {e.name: whereabouts(e, data_dir) for e in DATASETS.values()}
        entries = [e for e in DATASETS.values() if where[e.name] not in NOT_AT_HAND]
    found: list[Description] = []
    with loading(len(entries), seed, data_dir) as load:
        for entry in entries:
            found.append(describe_dataset(entry, load(entry)))
    if as_json:
        typer.echo(json.dumps([row.as_dict() for row in found]))
        return
    console = Console()
    console.print(_table(found))
    console.print("* differs from the digits that the paper prints", highlight=False)
    console.print("t over the training graphs, as in the paper", highlight=False)
    for row in found:
        if row.note:
            told = f"{row.name}: {row.note}"
            console.print(told, markup=False, highlight=False)


@app.command(epilog=PREPARE_EXAMPLES)
def prepare(
    names: Annotated[list[str], typer.Argument(help="Data sets.")],
    seed: Seed = 0,
    data_dir: Folder = None,
    as_json: Json = False,
) -> None:
    """Build or download data sets now, so that others find them in the cache."""
    entries = [find_entry(name) for name in names]
    rows = []
    with loading(len(entries), seed, data_dir) as load:
        for entry in entries:
            before = set(cache_dir().glob("*.npz"))
            dataset = load(entry)
            new = sorted(set(cache_dir().glob("*.npz")) - before)
            rows.append(
                {
                    "name": entry.name,
                    "graphs": len(dataset.store),
                    "source": dataset.info.source,
                    "written": [str(path) for path in new],
                }
            )
    if as_json:
        typer.echo(json.dumps({"cache": str(cache_dir()), "datasets": rows}))
        return
    for row in rows:
        written = ", ".join(row["written"]) or "nothing new to keep"  # type: ignore[arg-type]
        told = f"{row['name']}: {row['graphs']:,} graphs, {row['source']}; {written}"
        typer.echo(told)
    typer.echo(f"cache: {cache_dir()}")


def _table(rows: list[Description]) -> Table:
    table = Table("data set", "graphs", title="Data sets (paper's figures in brackets)")
    for name in ("mean nodes", "mean edges"):
        table.add_column(name, justify="right")
    for name in ("features of nodes; edges", "outputs", "source"):
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(
            row.name,
            row.graphs,
            _beside(row.nodes, row.paper_nodes, "nodes" in row.over_training),
            _beside(row.edges, row.paper_edges, "edges" in row.over_training),
            f"{row.node_features}; {row.edge_features or 'none'}",
            str(row.outputs),
            row.source,
        )
    return table


def _beside(measured: float, printed: str | None, trained: bool) -> str:
    """A mean, one digit more than the paper prints, and the paper's; * if unlike."""
    if printed is None:
        return f"{measured:.2f}"
    digits = len(printed.partition(".")[2]) + 1
    mark = "" if agrees(measured, printed) else " *"
    return f"{measured:.{digits}f} ({printed}){mark}{' t' if trained else ''}"

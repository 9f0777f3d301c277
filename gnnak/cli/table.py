"""`gnnak table`: show the paper's tables with our numbers; train missing models."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnnak.cli.options import (
    AcceleratorOption,
    DataDir,
    Json,
    MaxCopies,
    Plain,
    Recompute,
    ResultsFolder,
    RunsFolder,
    Settings,
)
from gnnak.report.formats import FORMATS, text
from gnnak.training.config.options import parse_settings
from gnnak.training.processes.stopping import stoppable_at_once
from gnnak.typing import check_choice

if TYPE_CHECKING:
    from gnnak.report.cells import PaperTable
    from gnnak.report.tables import FilledTable

EXAMPLES = """
Examples:

    gnnak table

    gnnak table simulation --format markdown

    gnnak table encodings --run --only zinc --seeds 1 --set train.epochs=20

    gnnak table real-world --run --jobs 2 --json
"""


def table(
    name: Annotated[
        str | None, typer.Argument(help="A table; without one, all are listed.")
    ] = None,
    results: ResultsFolder = Path("results"),
    shape: Annotated[
        str, typer.Option("--format", help=f"One of: {', '.join(FORMATS)}.")
    ] = "text",
    run: Annotated[
        bool, typer.Option("--run", help="Run what has no record yet.")
    ] = False,
    only: Annotated[
        str,
        typer.Option(help='With --run: only cells whose "row / column" has this text.'),
    ] = "",
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, help="With --run: number of seeds.", show_default="the paper's"
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="With --run: number of runs in parallel.")
    ] = 1,
    settings: Settings = None,
    data_dir: DataDir = None,
    runs_dir: RunsFolder = Path("runs"),
    accelerator: AcceleratorOption = "auto",
    recompute: Recompute = False,
    max_copies: MaxCopies = None,
    plain: Plain = False,
    as_json: Json = False,
) -> None:
    """Show a table of the paper with our numbers next to the paper's.

    Our numbers come from the records in the results folder. A number
    from fewer epochs, seeds or folds than in the paper has a footnote.
    """
    check_choice("--format", shape, FORMATS)
    with stoppable_at_once():
        from gnnak.cli.table_run import find_missing, run_missing
        from gnnak.report.paper import load_table, table_names
        from gnnak.report.tables import fill_from_folder
        from gnnak.training.launch import Places
        from gnnak.training.processes.machine import Machine

    if name is None:
        _list_tables([load_table(name) for name in table_names()], as_json)
        return
    chosen = load_table(name).changed(parse_settings(settings or []))
    failures: list[str] = []
    if run:
        places = Places(data_dir, runs_dir, results)
        machine = Machine(
            accelerator,  # type: ignore[arg-type]
            recompute=recompute,
            max_copies=max_copies,
            fast=not plain,
        )
        runs, datasets = find_missing(chosen, results, seeds, only)
        if not runs and not datasets:
            typer.echo("nothing to run: no cell lacks a record.", err=True)
        failures = run_missing(runs, datasets, places, machine, jobs)
    filled = fill_from_folder(chosen, results)
    if as_json:
        typer.echo(json.dumps(_as_dict(filled) | {"failed": failures}))
    else:
        typer.echo(_rendered(filled, shape))
    if failures:
        raise typer.Exit(1)


def _rendered(filled: FilledTable, shape: str) -> str:
    if shape == "text" and sys.stdout.isatty():
        return text(filled, shutil.get_terminal_size().columns)
    return {str(key): render for key, render in FORMATS.items()}[shape](filled)


def _as_dict(filled: FilledTable) -> dict[str, object]:
    return {
        "name": filled.table.name,
        "caption": filled.table.caption,
        "notes": list(filled.table.notes),
        "cells": [cell.as_dict() for row in filled.rows for cell in row],
    }


def _list_tables(tables: list[PaperTable], as_json: bool) -> None:
    if as_json:
        shown = [
            {"name": t.name, "caption": t.caption, "cells": len(list(t.cells()))}
            for t in tables
        ]
        typer.echo(json.dumps(shown))
        return
    width = max(len(t.name) for t in tables)
    for t in tables:
        typer.echo(f"{t.name:{width}}  {t.caption}")

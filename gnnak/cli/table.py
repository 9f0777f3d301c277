"""`gnnak table`: the paper's tables with our numbers, and the runs they lack."""

import json
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from gnnak.cli.options import (
    AcceleratorOption,
    DataDir,
    Json,
    MaxCopies,
    Plain,
    Recompute,
    RunsFolder,
)
from gnnak.cli.table_runs import run_pending
from gnnak.report.cells import PaperTable
from gnnak.report.formats import FORMATS, text
from gnnak.report.lookup import RunRecords
from gnnak.report.paper import load_table, table_names
from gnnak.report.pending import PendingRun, pending_runs
from gnnak.report.statistics import read_statistics, unmeasured
from gnnak.report.tables import FilledTable, fill_from_folder
from gnnak.training.launch import Places
from gnnak.training.machine import Machine
from gnnak.training.options import parse_settings
from gnnak.typing import check_choice

EXAMPLES = """
Examples:

    gnnak table

    gnnak table simulation --format markdown

    gnnak table encodings --run --only zinc --seeds 1 --set train.epochs=20

    gnnak table real-world --run --jobs 2 --json
"""


def table(
    name: Annotated[str | None, typer.Argument(help="None = list the tables.")] = None,
    results: Annotated[Path, typer.Option(help="Folder of the records.")] = Path(
        "results"
    ),
    shape: Annotated[
        str, typer.Option("--format", help=f"One of: {', '.join(FORMATS)}.")
    ] = "text",
    run: Annotated[bool, typer.Option("--run", help="Run what is missing.")] = False,
    only: Annotated[
        str, typer.Option(help="With --run: cells with this in their title alone.")
    ] = "",
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="With --run: how many seeds."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="With --run: processes side by side.")
    ] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Another setting in every run, as key=value."),
    ] = None,
    data_dir: DataDir = None,
    runs_dir: RunsFolder = Path("runs"),
    accelerator: AcceleratorOption = "auto",
    recompute: Recompute = False,
    max_copies: MaxCopies = None,
    plain: Plain = False,
    as_json: Json = False,
) -> None:
    """Show a table of the paper, our numbers beside its own.

    Numbers come from the records in the results folder. A cell that was trained for
    fewer epochs, seeds or folds than the paper's is shown with a footnote.
    """
    check_choice("--format", shape, FORMATS)
    if name is None:
        _list_tables(as_json)
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
        runs, datasets = _missing(chosen, results, seeds, only)
        failures = run_pending(runs, datasets, places, machine, jobs)
    filled = fill_from_folder(chosen, results)
    if as_json:
        typer.echo(json.dumps(_as_dict(filled) | {"failed": failures}))
    else:
        typer.echo(_rendered(filled, shape))
    if failures:
        raise typer.Exit(1)


def _missing(
    chosen: PaperTable, results: Path, seeds: int | None, only: str
) -> tuple[list[PendingRun], list[str]]:
    runs = pending_runs(chosen, RunRecords.read(results), seeds, only)
    missing = unmeasured(chosen, read_statistics(results))
    datasets = [name for name in missing if only.lower() in name]
    if not runs and not datasets:
        typer.echo("nothing to run: no cell lacks a record.", err=True)
    return runs, datasets


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


def _list_tables(as_json: bool) -> None:
    tables = [load_table(name) for name in table_names()]
    if as_json:
        told = [
            {"name": t.name, "caption": t.caption, "cells": len(list(t.cells()))}
            for t in tables
        ]
        typer.echo(json.dumps(told))
        return
    width = max(len(t.name) for t in tables)
    for t in tables:
        typer.echo(f"{t.name:{width}}  {t.caption}")

"""`gnnak table`: show the paper's tables with our numbers; train missing models."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, astuple, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table

from gnnak.cli.names import (
    check_each,
    check_file,
    check_table,
    check_tables,
    examples,
    flag,
    option,
)
from gnnak.cli.options import (
    DATA_DIR,
    JSON,
    RESULTS,
    RUNS,
    SETTINGS,
    ScheduleOptions,
    TrainingMachine,
    expanded,
)
from gnnak.errors import OptionError
from gnnak.report.formats import FORMATS, text
from gnnak.training.config.options import parse_settings
from gnnak.training.processes.stopping import stoppable_at_once
from gnnak.typing import check_choice

if TYPE_CHECKING:
    from gnnak.report.cells import PaperTable
    from gnnak.report.tables import FilledTable
    from gnnak.training.schedule.pool import Job
    from gnnak.training.schedule.schedule import Schedule

EXAMPLES = examples(
    "gnnak table",
    "gnnak table simulation --format markdown",
    "gnnak table encodings --run --only zinc --seeds 1 --set train.epochs=20",
    "gnnak table --tables simulation,base-depth --run --jobs 8 --minutes 25",
    "gnnak table --tables all --seeds 1 --folds 1 --dry-run --jobs 8",
    "gnnak table real-world --run --only cifar10 --seeds 1 --shorten 5",
    "gnnak table --summary",
)


@expanded
def table(
    device: TrainingMachine,
    planned: ScheduleOptions,
    name: str | None = typer.Argument(
        None, callback=check_table, help="A table; without one, all are listed."
    ),
    tables: list[str] | None = option(
        callback=check_each(check_tables),
        help="Several tables: names with commas between them, or all. May be repeated.",
    ),
    results: Path = RESULTS,
    shape: str = typer.Option(
        "text", "--format", help=f"One of: {', '.join(FORMATS)}."
    ),
    summary: bool = flag(
        "--summary", help="Count the cells that agree with the paper."
    ),
    run: bool = flag("--run", help="Run what has no record yet."),
    only: list[str] | None = option(
        help='With --run: only cells whose "row / column" contains this text. May be '
        "repeated."
    ),
    seeds: int | None = option(
        min=1, help="With --run: number of seeds.", show_default="the paper's"
    ),
    folds: int | None = option(
        min=1,
        help="With --run: number of folds of each cross-validation.",
        show_default="all",
    ),
    shorten: float = typer.Option(
        1,
        min=1,
        help="Divide the numbers of epochs, of epochs of the warm-up, and of epochs "
        "after which the learning rate is halved, by this number. Such runs are "
        "trials: their records are in the folder trials of --results, and in no other "
        "table.",
    ),
    settings: list[str] | None = SETTINGS,
    data_dir: Path | None = DATA_DIR,
    runs: Path = RUNS,
    as_json: bool = JSON,
) -> None:
    """Show tables of the paper with our numbers next to the paper's.

    Our numbers come from records in the results folder. Only runs with as many epochs
    as in the paper count. A number from fewer seeds or folds than in the paper has a
    footnote.
    """
    with stoppable_at_once():
        from gnnak.report.cells import load_table, table_names
        from gnnak.report.tables import fill_from_folder
        from gnnak.training.config.experiment import full_names

    trains = run or planned.dry_run
    if not trains:
        more = {"only": only, "seeds": seeds, "folds": folds, "data_dir": data_dir}
        _check_unused(vars(device) | vars(planned) | more | {"runs": runs})
    if results.is_file():
        raise OptionError(f"--results is {results}, a file; give its folder.")
    if not trains and results != RESULTS.default:
        check_file(results)
    if shorten > 1:
        results = results / "trials"
    names = _chosen(name, tables, table_names())
    if trains and not names:
        raise OptionError("runs need a table; name one, or give --tables all.")
    _check_output(shape, summary, planned.dry_run, as_json)
    if not names and not summary:
        _list_tables([load_table(name) for name in table_names()], as_json)
        return
    changes = full_names(parse_settings(settings or []))
    chosen = [
        load_table(each).changed(changes).shortened(shorten)
        for each in names or table_names()
    ]
    failures: list[str] = []
    if trains:
        with stoppable_at_once():
            from gnnak.report.tables import check_only, find_missing
            from gnnak.training.launch import Places

        places = Places(data_dir, runs, results)
        schedule = planned.schedule(places, device.machine())
        check_only(chosen, only or [])
        missing, datasets = find_missing(chosen, results, seeds, only or [], folds)
        if planned.dry_run:
            schedule.show(missing, Console())
            return
        if not missing and not datasets:
            typer.echo("nothing to run: no cell lacks a record.", err=True)
        failures = _run_missing(missing, datasets, schedule, Console(stderr=True))
    filled = fill_from_folder(chosen, results)
    if summary:
        _print_summary(filled, as_json)
    elif as_json:
        shown = [_as_dict(each) | {"failed": failures} for each in filled]
        typer.echo(json.dumps(shown if tables else shown[0]))
    else:
        typer.echo("\n\n".join(_rendered(each, shape) for each in filled))
    if failures:
        raise typer.Exit(1)


def _run_missing(
    jobs: Sequence[Job], datasets: Sequence[str], schedule: Schedule, console: Console
) -> list[str]:
    from gnnak.report.tables import measure_dataset

    failed = []
    for name in datasets:
        title = f"data set {name}"
        try:
            with console.status(title):
                measure_dataset(name, schedule.places.results)
        except Exception as error:
            line = f"failed: {title}: {error}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
            failed.append(title)
    return failed + [job.title for job in schedule.run(jobs, console).failed]


def _check_output(shape: str, summary: bool, dry_run: bool, as_json: bool) -> None:
    check_choice("--format", shape, FORMATS)
    if summary and shape != "text":
        raise OptionError("--summary has no --format; give --json, or neither.")
    if dry_run and as_json:
        raise OptionError("--dry-run prints text; leave out --json.")


def _check_unused(options: dict[str, Any]) -> None:
    usual = {"jobs": 1, "accelerator": "auto", "runs": RUNS.default}
    given = {k: v for k, v in options.items() if v is not None and v != usual.get(k)}
    if names := [name for name, value in given.items() if value is not False]:
        told = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        raise OptionError(f"only runs use {told}; add --run or --dry-run, or drop it.")


def _chosen(name: str | None, tables: list[str] | None, known: list[str]) -> list[str]:
    if name and tables:
        raise OptionError("give one table or --tables, not both.")
    given = [each.strip() for text in tables or () for each in text.split(",")]
    named = list(dict.fromkeys(filter(None, given)))
    if tables and not named:
        raise OptionError("--tables names no table; give names, or all.")
    if "all" not in named:
        return [name] if name else named
    if len(named) > 1:
        raise OptionError("give --tables all, or --tables with names, not both.")
    return known


def _rendered(filled: FilledTable, shape: str) -> str:
    if shape == "text" and sys.stdout.isatty():
        return text(filled, shutil.get_terminal_size().columns)
    return FORMATS[shape](filled)


def _as_dict(filled: FilledTable) -> dict[str, object]:
    return {
        "name": filled.table.name,
        "caption": filled.table.caption,
        "notes": list(filled.table.notes),
        "cells": [cell.as_dict() for row in filled.rows for cell in row],
    }


def _print_summary(tables: list[FilledTable], as_json: bool) -> None:
    from gnnak.report.tables import SUMMARY_LEGEND, Counts

    counts = [(filled.table.name, filled.counts) for filled in tables]
    if as_json:
        shown = [{"table": n, "share": c.share} | asdict(c) for n, c in counts]
        typer.echo(json.dumps(shown))
        return
    rows = [(name, astuple(count)) for name, count in counts]
    totals = [sum(values) for values in zip(*(r for _, r in rows), strict=True)]
    header = ("table", *(field.name for field in fields(Counts)))
    grid = Table(*header, box=None)
    for name, values in [*rows, ("all", totals)]:
        grid.add_row(name, *map(str, values))
    Console().print(grid)
    typer.echo(SUMMARY_LEGEND)
    share = Counts(*totals).share
    if share is not None:
        typer.echo(f"{share:.1%} of the compared cells are within or better.")


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

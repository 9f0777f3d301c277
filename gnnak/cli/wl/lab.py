"""`gnnak wl lab`: tests and networks on hard families, as one table."""

import json
from collections.abc import Iterable
from itertools import chain
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gnnak.cli.wl.shared import Json, Memory, Tests
from gnnak.typing import check_choice, check_count
from gnnak.wl.families.registry import FAMILIES
from gnnak.wl.lab import LAB_CONTENDERS, LAB_FAMILIES, LabResult, run_lab
from gnnak.wl.networks import LAB_NETWORKS, run_networks
from gnnak.wl.options import check_test

EXAMPLES = """
Examples:

    gnnak wl lab

    gnnak wl lab --family csl --family srg25 --no-networks

    gnnak wl lab --family cfi-petersen --test 2-fwl --json
"""


def lab(
    family: Annotated[
        list[str] | None,
        typer.Option(help=f"May be repeated. One of: {', '.join(FAMILIES)}."),
    ] = None,
    test: Tests = None,
    networks: Annotated[bool, typer.Option(help="Run networks as well.")] = True,
    num_hops: Annotated[int, typer.Option(help="Radius for the networks.")] = 1,
    max_memory: Memory = 2.0,
    as_json: Json = False,
) -> None:
    """Run tests, and networks beside the tests that bound them, on hard families.

    For each: the pairs that are not isomorphic, how many of them are told apart, the
    rounds until the colouring was stable, and the time.
    """
    for name in family or ():
        check_choice("--family", name, FAMILIES)
    for name in test or ():
        check_test(name)
    check_count("--num-hops", num_hops)
    families = tuple(family or LAB_FAMILIES)
    contenders = [c for c in LAB_CONTENDERS if not test or c.test in test]
    results = run_lab(families, contenders, max_memory)
    of_tests = total = len(families) * len(contenders)
    if networks:
        ran = run_networks(families, num_hops=num_hops, max_memory=max_memory)
        results = chain(results, ran)
        total += len(families) * len(LAB_NETWORKS) * 3
    found = _collect(results, total)
    if as_json:
        typer.echo(json.dumps([row.as_dict() for row in found]))
        return
    console = Console()
    console.print(_table("Tests", "test", found[:of_tests]))
    if networks:
        console.print(_table("Networks", "network", found[of_tests:]))
    _print_notes(console, found)


def _collect(results: Iterable[LabResult], total: int) -> list[LabResult]:
    columns = (TextColumn("{task.description:44}"), BarColumn(), TimeElapsedColumn())
    found = []
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("building", total=total)
        for result in results:
            found.append(result)
            told = f"{result.family}: {result.contender}"
            progress.update(task, advance=1, description=told[:44])
    return found


def _print_notes(console: Console, rows: list[LabResult]) -> None:
    for row in rows:
        if row.note:
            told = f"{row.family}, {row.contender}: {row.note}"
            console.print(told, markup=False, highlight=False)


def _table(title: str, kind: str, rows: list[LabResult]) -> Table:
    table = Table("family", kind, title=title)
    for name in ("pairs", "told apart", "rounds", "seconds"):
        table.add_column(name, justify="right")
    shown = ""
    for row in rows:
        if shown and shown != row.family:
            table.add_section()
        first = row.family if shown != row.family else ""
        shown = row.family
        apart = "not run" if row.apart is None else f"{row.apart:,}"
        rounds = "" if row.rounds is None else str(row.rounds)
        cells = (f"{row.pairs:,}", apart, rounds, f"{row.seconds:.2f}")
        table.add_row(first, row.contender, *cells)
    return table

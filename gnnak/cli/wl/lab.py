"""`gnnak wl lab`: run Weisfeiler-Leman tests and networks on families of graphs.

The families contain non-isomorphic graphs that are hard to distinguish.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gnnak.cli.options import WL_FAMILIES, WL_NETWORKS, Json
from gnnak.cli.wl.options import Memory, Tests
from gnnak.errors import OptionError
from gnnak.training.processes.stopping import stoppable_at_once
from gnnak.typing import check_choice, check_count

if TYPE_CHECKING:
    from gnnak.wl.lab import LabResult

EXAMPLES = """
Examples:

    gnnak wl lab

    gnnak wl lab --family csl --family srg25 --no-networks

    gnnak wl lab --family cfi-petersen --test 2-fwl --json

    gnnak wl lab --family cycles --test 1-wl --network sswl+-gin --network gin-ak+
"""


def lab(
    family: Annotated[
        list[str] | None,
        typer.Option(help=f"May be repeated. One of: {', '.join(WL_FAMILIES)}."),
    ] = None,
    test: Tests = None,
    networks: Annotated[bool, typer.Option(help="Run networks as well.")] = True,
    network: Annotated[
        list[str] | None,
        typer.Option(
            help="Network to run, such as gin-ak+ or sswl+-gin; may be repeated.",
            show_default=", ".join(WL_NETWORKS),
        ),
    ] = None,
    num_hops: Annotated[
        int | None,
        typer.Option(
            help="Radius of the egonets, for networks.",
            show_default="1; whole graphs for sswl and sswl+",
        ),
    ] = None,
    max_memory: Memory = 2.0,
    as_json: Json = False,
) -> None:
    """Run Weisfeiler-Leman (WL) tests and networks on hard families of graphs.

    The table shows, for each family and each test or network, the number of
    non-isomorphic pairs, how many of these pairs are distinguished, the rounds until
    the colouring was stable, and the time. Each network has three rows: the WL test
    that bounds the network (no network distinguishes more pairs than its bound), the
    network with random weights, and the network after a few training steps.
    """
    for name in family or ():
        check_choice("--family", name, WL_FAMILIES)
    if num_hops is not None:
        check_count("--num-hops", num_hops)
    if network and not networks:
        raise OptionError("--network and --no-networks exclude each other; drop one.")
    with stoppable_at_once():
        from gnnak.models.factory import normal_name
        from gnnak.wl.lab import LAB_CONTENDERS, LAB_FAMILIES, run_lab
        from gnnak.wl.networks import run_networks
        from gnnak.wl.options import check_test

    for name in test or ():
        check_test(name)
    families = tuple(family or LAB_FAMILIES)
    contenders = [c for c in LAB_CONTENDERS if not test or c.test in test]
    results = run_lab(families, contenders, max_memory)
    of_tests = total = len(families) * len(contenders)
    if networks:
        names = [normal_name(name) for name in network or WL_NETWORKS]
        ran = run_networks(families, names, num_hops, max_memory=max_memory)
        results = chain(results, ran)
        total += len(families) * len(names) * 3
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
    """Return all results; show a progress bar while they are computed."""
    columns = (TextColumn("{task.description:44}"), BarColumn(), TimeElapsedColumn())
    found = []
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("building", total=total)
        for result in results:
            found.append(result)
            title = f"{result.family}: {result.contender}"
            progress.update(task, advance=1, description=title[:44])
    return found


def _print_notes(console: Console, rows: list[LabResult]) -> None:
    for row in rows:
        if row.note:
            line = f"{row.family}, {row.contender}: {row.note}"
            console.print(line, markup=False, highlight=False)


def _table(title: str, kind: str, rows: list[LabResult]) -> Table:
    """Return a table of results with one section per family of graphs.

    `kind` is the heading of the second column: "test" or "network".
    """
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
        shown_name = f"{row.contender}: {row.test}" if row.test else row.contender
        table.add_row(first, shown_name, *cells)
    return table

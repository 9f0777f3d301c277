"""`gnnak wl compare`: show which Weisfeiler-Leman tests distinguish given graphs."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from gnnak.cli.options import WL_TESTS, Json
from gnnak.cli.wl.options import (
    D2C,
    Centroid,
    Context,
    Hash,
    Hops,
    Mark,
    Memory,
    Readout,
    Tests,
    given,
)
from gnnak.errors import GraphError
from gnnak.training.processes.stopping import stoppable_at_once

EXAMPLES = """
Examples:

    gnnak wl compare A.g6 B.g6

    gnnak wl compare A.g6 B.g6 --test "subgraph-1-wl*" --num-hops 2 --d2c

    gnnak wl compare many.g6 --test 1-wl --test 3-wl --json
"""


def compare(
    files: Annotated[
        list[Path], typer.Argument(help="graph6 files with two graphs or more.")
    ],
    test: Tests = None,
    num_hops: Hops = None,
    hash_name: Hash = None,
    d2c: D2C = None,
    root_mark: Mark = None,
    centroid: Centroid = None,
    context: Context = None,
    readout: Readout = None,
    max_memory: Memory = 8.0,
    as_json: Json = False,
) -> None:
    """Show which Weisfeiler-Leman tests distinguish the given graphs.

    For each test, graphs that it does not distinguish are listed as one class. Without
    --test, all tests are run. A test ignores the options that it does not support.
    """
    options = given(
        max_memory=max_memory,
        num_hops=num_hops,
        hash=hash_name,
        d2c=d2c,
        root_mark=root_mark,
        centroid=centroid,
        context=context,
        readout=readout,
    )
    tests = test or list(WL_TESTS)
    with stoppable_at_once():
        from gnnak.cli.wl.run import compare_graphs, options_by_test, read_files

    chosen = options_by_test(tests, options)
    named = read_files(files)
    if len(named) < 2:
        raise GraphError(f"{files[0]} holds one graph; give two graphs to compare.")
    graphs, only_test = list(named.values()), len(tests) == 1
    rows = []
    console = Console(stderr=True)
    for name in track(tests, "comparing", console=console, transient=True):
        rows.append(compare_graphs(name, graphs, chosen[name], only_test))
    if as_json:
        typer.echo(json.dumps({"graphs": list(named), "tests": rows}))
        return
    table = Table("test", "pairs", "told apart", "rounds", "classes")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row.values()))
    Console().print(table)

"""`gnnak wl compare`: which tests tell the graphs of some files apart."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from gnnak.cli.wl.shared import (
    D2C,
    Centroid,
    Context,
    Hash,
    Hops,
    Json,
    Mark,
    Memory,
    Tests,
    given,
    options_for,
    read_files,
)
from gnnak.errors import GraphError, OptionError
from gnnak.graphs.named import Graph
from gnnak.wl.compare import partition_with_rounds
from gnnak.wl.families.registry import pairs_apart
from gnnak.wl.options import TESTS, known_options

EXAMPLES = """
Examples:

    gnnak wl compare A.g6 B.g6

    gnnak wl compare A.g6 B.g6 --test "subgraph-1-wl*" --num-hops 2 --d2c

    gnnak wl compare many.g6 --test 1-wl --test 3-wl --json
"""


def compare(
    files: Annotated[list[Path], typer.Argument(help="graph6 files, two graphs up.")],
    test: Tests = None,
    num_hops: Hops = None,
    hash_name: Hash = None,
    d2c: D2C = False,
    root_mark: Mark = False,
    centroid: Centroid = False,
    context: Context = False,
    max_memory: Memory = 8.0,
    as_json: Json = False,
) -> None:
    """Tell which tests tell graphs apart, and into which classes they sort them.

    All tests are run if none is named; an option goes to the tests that take it.
    """
    told = given(
        max_memory=max_memory,
        num_hops=num_hops,
        hash=hash_name,
        d2c=d2c,
        root_mark=root_mark,
        centroid=centroid,
        context=context,
    )
    tests = test or list(TESTS)
    _check_used(tests, told)
    named = read_files(files)
    if len(named) < 2:
        raise GraphError(f"{files[0]} holds one graph; give two graphs to compare.")
    chosen = {name: options_for(name, told) for name in tests}
    rows = []
    console = Console(stderr=True)
    for name in track(tests, "comparing", console=console, transient=True):
        rows.append(_row(name, list(named.values()), chosen[name], len(tests) == 1))
    if as_json:
        typer.echo(json.dumps({"graphs": list(named), "tests": rows}))
        return
    table = Table("test", "pairs", "told apart", "rounds", "classes")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row.values()))
    Console().print(table)


def _check_used(tests: list[str], told: dict[str, object]) -> None:
    for option in told:
        if not any(option in known_options(test) for test in tests):
            raise OptionError(
                f"--{option.replace('_', '-')} means nothing to {', '.join(tests)}; "
                "drop it or name another --test."
            )


def _row(
    test: str, graphs: list[Graph], options: dict[str, object], alone: bool
) -> dict[str, object]:
    """What one test found; if it is one of several, graphs may be too large for it."""
    pairs = len(graphs) * (len(graphs) - 1) // 2
    row: dict[str, object] = {"test": test, "pairs": pairs}
    try:
        classes, rounds = partition_with_rounds(test, graphs, **options)
    except GraphError as error:
        if alone:
            raise
        return {**row, "apart": None, "rounds": None, "classes": str(error)}
    apart = pairs_apart([graphs], classes)[1]
    return {**row, "apart": apart, "rounds": rounds, "classes": classes}

"""`gnnak wl explain`: show how a Weisfeiler-Leman test distinguishes two graphs."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gnnak.cli.options import WL_TESTS
from gnnak.cli.wl.options import (
    D2C,
    Centroid,
    Context,
    Hash,
    Hops,
    Mark,
    Memory,
    Readout,
    given,
)
from gnnak.errors import GraphError, OptionError
from gnnak.training.processes.stopping import stoppable_at_once

EXAMPLES = """
Examples:

    gnnak wl explain A.g6 B.g6

    gnnak wl explain A.g6 B.g6 --test "subgraph-1-wl*" --picture colours.png

    gnnak wl explain A.g6 B.g6 --test 3-wl --json
"""


def explain(
    first: Annotated[Path, typer.Argument(help="A graph6 file with one graph.")],
    second: Annotated[Path, typer.Argument(help="A graph6 file with one graph.")],
    test: Annotated[
        str, typer.Option(help=f"One of: {', '.join(WL_TESTS)}.")
    ] = "subgraph-1-wl*",
    num_hops: Hops = None,
    hash_name: Hash = None,
    d2c: D2C = None,
    root_mark: Mark = None,
    centroid: Centroid = None,
    context: Context = None,
    readout: Readout = None,
    max_memory: Memory = 8.0,
    picture: Annotated[
        Path | None, typer.Option(help="Plot both graphs, coloured, into this file.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of text.")
    ] = False,
) -> None:
    """Show in which round, and by which colours, a WL test distinguishes two graphs."""
    if picture is not None and picture.suffix not in (".png", ".pdf", ".svg"):
        raise OptionError(f"--picture is {picture}; end it in .png, .pdf or .svg.")
    options = given(
        num_hops=num_hops,
        hash=hash_name,
        d2c=d2c,
        root_mark=root_mark,
        centroid=centroid,
        context=context,
        readout=readout,
        max_memory=max_memory,
    )
    with stoppable_at_once():
        from gnnak import wl
        from gnnak.cli.wl.run import explanation_as_dict, read_files, save_picture

    named = read_files([first, second])
    if len(named) != 2:
        raise GraphError(
            f"the files hold {len(named)} graphs; give two files of one graph each."
        )
    console = Console(stderr=True)
    with console.status(f"running {test}"):
        found = wl.explain(test, *named.values(), **options)
    if picture is not None:
        save_picture(found, picture)
    if as_json:
        typer.echo(json.dumps(explanation_as_dict(found)))
        return
    Console(highlight=False).print(str(found), markup=False)
    if picture is not None:
        typer.echo(f"Picture: {picture}")

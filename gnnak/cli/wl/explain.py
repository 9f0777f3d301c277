"""`gnnak wl explain`: the round and the colours that tell two graphs apart."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gnnak import wl
from gnnak.cli.wl.shared import (
    D2C,
    Centroid,
    Context,
    Hash,
    Hops,
    Json,
    Mark,
    Memory,
    given,
    read_files,
)
from gnnak.errors import FileFormatError, GraphError, OptionError
from gnnak.report.pictures import save
from gnnak.wl.drawing import draw

EXAMPLES = """
Examples:

    gnnak wl explain A.g6 B.g6

    gnnak wl explain A.g6 B.g6 --test "subgraph-1-wl*" --picture colours.png

    gnnak wl explain A.g6 B.g6 --test 3-wl --json
"""


def explain(
    first: Annotated[Path, typer.Argument(help="A graph6 file with one graph.")],
    second: Annotated[Path, typer.Argument(help="Another.")],
    test: Annotated[
        str, typer.Option(help=f"One of: {', '.join(wl.TESTS)}.")
    ] = "subgraph-1-wl*",
    num_hops: Hops = None,
    hash_name: Hash = None,
    d2c: D2C = False,
    root_mark: Mark = False,
    centroid: Centroid = False,
    context: Context = False,
    max_memory: Memory = 8.0,
    picture: Annotated[
        Path | None, typer.Option(help="Where to draw both graphs, coloured.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell in which round, and by which colours, a test tells two graphs apart."""
    if picture is not None and picture.suffix not in (".png", ".pdf", ".svg"):
        raise OptionError(f"--picture is {picture}; end it in .png, .pdf or .svg.")
    told = given(
        num_hops=num_hops,
        hash=hash_name,
        d2c=d2c,
        root_mark=root_mark,
        centroid=centroid,
        context=context,
        max_memory=max_memory,
    )
    named = read_files([first, second])
    if len(named) != 2:
        raise GraphError(
            f"the files hold {len(named)} graphs; give two files of one graph each."
        )
    console = Console(stderr=True)
    with console.status(f"running {test}"):
        found = wl.explain(test, *named.values(), **told)
    if picture is not None:
        _save(found, picture)
    if as_json:
        typer.echo(json.dumps(_as_dict(found)))
        return
    Console(highlight=False).print(str(found), markup=False)
    if picture is not None:
        typer.echo(f"Picture: {picture}")


def _save(found: wl.Explanation, picture: Path) -> None:
    try:
        save(draw(found), picture)
    except OSError as error:
        raise FileFormatError(
            f"{picture} cannot be written ({error.strerror}); name another file."
        ) from None


def _as_dict(found: wl.Explanation) -> dict[str, object]:
    return {
        "test": found.test,
        "options": asdict(found.options),
        "distinguished": found.distinguished,
        "round": found.round,
        "rounds": found.rounds,
        "colors": [asdict(color) for color in found.colors],
        "node_colors": found.node_colors,
    }

"""What the commands of `gnnak wl` share: options and files."""

from pathlib import Path
from typing import Annotated

import typer

from gnnak.errors import FileFormatError
from gnnak.graphs.named import Graph
from gnnak.graphs.readers import read_graph6
from gnnak.wl.options import HASHES, TESTS, known_options, read_options

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Tests = Annotated[
    list[str] | None,
    typer.Option("--test", help=f"May be repeated. One of: {', '.join(TESTS)}."),
]
Hops = Annotated[int | None, typer.Option(help="Radius of the egonets (default 1).")]
Hash = Annotated[
    str | None,
    typer.Option("--hash", help=f"Inside subgraph-1-wl: {', '.join(HASHES)}."),
]
D2C = Annotated[bool, typer.Option("--d2c", help="Copies know their distance.")]
Mark = Annotated[bool, typer.Option("--root-mark", help="The root is marked.")]
Centroid = Annotated[bool, typer.Option("--centroid", help="Read the root's copy.")]
Context = Annotated[bool, typer.Option("--context", help="Read a node's copies.")]
Memory = Annotated[float, typer.Option(help="GiB a test may be estimated to need.")]


def given(**options: object) -> dict[str, object]:
    """The options that were given on the command line."""
    return {k: v for k, v in options.items() if v is not None and v is not False}


def options_for(test: str, options: dict[str, object]) -> dict[str, object]:
    """Those of the options that `test` takes, checked."""
    known = known_options(test)
    chosen = {name: value for name, value in options.items() if name in known}
    read_options(test, **chosen)
    return chosen


def read_files(files: list[Path]) -> dict[str, Graph]:
    """All graphs of some graph6 files, by file name and line."""
    found: dict[str, Graph] = {}
    for file in files:
        store = read_graph6(file)
        if not len(store):
            raise FileFormatError(f"{file} holds no graph; give one graph6 line each.")
        edges = store.edge_index.split(store.num_edges.tolist(), dim=1)
        sizes = store.num_nodes.tolist()
        for line, graph in enumerate(zip(edges, sizes, strict=True)):
            name = str(file) if len(sizes) == 1 else f"{file}:{line}"
            while name in found:
                name += "'"
            found[name] = graph
    return found

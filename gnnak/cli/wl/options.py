"""Options that the commands of `gnnak wl` share."""

from typing import Annotated

import typer

from gnnak.cli.options import WL_HASHES, WL_READOUTS, WL_TESTS

Tests = Annotated[
    list[str] | None,
    typer.Option("--test", help=f"May be repeated. One of: {', '.join(WL_TESTS)}."),
]
Hops = Annotated[
    int | None,
    typer.Option(
        help="Radius of the egonets.",
        show_default="1; whole graphs in swl, pswl, gswl, sswl, 2-lfwl and 2-slfwl",
    ),
]
Hash = Annotated[
    str | None,
    typer.Option(
        "--hash",
        help="Test that subgraph-1-wl applies to each egonet, one of: "
        f"{', '.join(WL_HASHES)}.",
        show_default="exact",
    ),
]
D2C = Annotated[
    bool | None,
    typer.Option("--d2c", help="Initial colours include the distance to the root."),
]
Mark = Annotated[
    bool | None,
    typer.Option(
        "--root-mark/--no-root-mark",
        help="The root has a distinct initial colour.",
        show_default="only in swl, pswl, gswl, sswl, 2-lfwl and 2-slfwl",
    ),
]
Centroid = Annotated[
    bool | None,
    typer.Option(
        "--centroid", help="A node's new colour includes its colour in its own egonet."
    ),
]
Context = Annotated[
    bool | None,
    typer.Option(
        "--context", help="A node's new colour includes its colours in all egonets."
    ),
]
Readout = Annotated[
    str | None,
    typer.Option(
        help="What swl, pswl, gswl and sswl pool first: nodes of a subgraph (vs), or "
        f"subgraphs of a node (sv). One of: {', '.join(WL_READOUTS)}.",
        show_default="vs",
    ),
]
Memory = Annotated[
    float, typer.Option(help="Refuse tests that need more memory than this, in GiB.")
]


def given(**options: object) -> dict[str, object]:
    """Return the options that are not None: those set on the command line.

    >>> given(num_hops=2, hash=None, root_mark=False)
    {'num_hops': 2, 'root_mark': False}
    """
    return {name: value for name, value in options.items() if value is not None}

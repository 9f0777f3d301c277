"""Options that the commands of `gnnak wl` share."""

from typing import Annotated

import typer

from gnnak.cli.choices import WL_HASHES, WL_TESTS

Tests = Annotated[
    list[str] | None,
    typer.Option("--test", help=f"May be repeated. One of: {', '.join(WL_TESTS)}."),
]
Hops = Annotated[
    int | None, typer.Option(help="Radius of the egonets.", show_default="1")
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
    bool,
    typer.Option("--d2c", help="Initial colours include the distance to the root."),
]
Mark = Annotated[
    bool, typer.Option("--root-mark", help="The root has a distinct initial colour.")
]
Centroid = Annotated[
    bool,
    typer.Option(
        "--centroid", help="A node's new colour includes its colour in its own egonet."
    ),
]
Context = Annotated[
    bool,
    typer.Option(
        "--context", help="A node's new colour includes its colours in all egonets."
    ),
]
Memory = Annotated[
    float, typer.Option(help="Refuse tests that need more memory than this, in GiB.")
]


def given(**options: object) -> dict[str, object]:
    """Return the options that are neither None nor False.

    These are the options that were set on the command line.

    >>> given(num_hops=2, hash=None, d2c=False)
    {'num_hops': 2}
    """
    return {k: v for k, v in options.items() if v is not None and v is not False}

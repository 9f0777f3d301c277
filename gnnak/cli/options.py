"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

DataDir = Annotated[
    Path | None,
    typer.Option(help="Where data sets lie; else GNNAK_DATA, then the cache."),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON for machines instead of a table.")
]
AcceleratorOption = Annotated[
    str, typer.Option("--accelerator", help="auto, cpu or gpu.")
]
Recompute = Annotated[
    bool, typer.Option("--recompute", help="Less memory in training, for more time.")
]
MaxCopies = Annotated[
    int | None,
    typer.Option(min=1, help="Less memory in evaluation: node copies at a time."),
]
Plain = Annotated[
    bool,
    typer.Option(
        "--plain",
        help="No fused layers, no captured steps: slower on a GPU, the same results.",
    ),
]
RunsFolder = Annotated[
    Path, typer.Option("--runs", help="Checkpoints and curves go here.")
]

"""Command-line options that several commands of `gnnak` share."""

from pathlib import Path
from typing import Annotated

import typer

Experiment = Annotated[
    str,
    typer.Argument(
        help="A data set (`gnnak datasets list`), a YAML file, or your own data: a "
        "CSV, npz, graph6, JSON, PyG or edge list file (text files also as .gz), or a "
        "folder of graphs."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set any option of the run (`gnnak train zinc --show` lists them). "
        "May be repeated.",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder with data files; default: $GNNAK_DATA, then the cache folder."
    ),
]
RunsFolder = Annotated[
    Path, typer.Option("--runs", help="Folder for checkpoints and learning curves.")
]
ResultsFolder = Annotated[
    Path, typer.Option("--results", help="Folder with the records of all runs.")
]
RecordsFolder = Annotated[
    Path | None,
    typer.Option(
        "--results",
        help="Folder for runs.jsonl, the records of all runs.",
        show_default="results; for your own data, the folder of --runs",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
AcceleratorOption = Annotated[
    str, typer.Option("--accelerator", help="auto, cpu or gpu.")
]
Recompute = Annotated[
    bool,
    typer.Option(
        "--recompute",
        help="Recompute activations in the backward pass: less memory, more time.",
    ),
]
MaxCopies = Annotated[
    int | None,
    typer.Option(
        min=1, help="In evaluation, process about this many node copies at a time."
    ),
]
Plain = Annotated[
    bool,
    typer.Option(
        "--plain",
        help="No fused kernels, no captured CUDA graphs: slower, the same results.",
    ),
]
Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Import a module with your own base GNN before the checkpoint is loaded. "
        "May be repeated.",
    ),
]
Jobs = Annotated[
    int, typer.Option(min=1, help="Number of runs in parallel on the device.")
]
Minutes = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Stop after this time. A run starts only if it is expected to end in "
        "time; unfinished runs are resumed the next time.",
        show_default="when all runs are done",
    ),
]
Long = Annotated[
    bool,
    typer.Option(
        "--long",
        help="With --minutes: also start runs that will not end in time; they are "
        "resumed the next time.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="List the runs with their expected time and exit."),
]

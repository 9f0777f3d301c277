"""Options that several commands of `gnnak` share, and the names in help texts."""

import importlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gnnak.errors import OptionError

WL_TESTS = (
    "1-wl",
    "2-wl",
    "3-wl",
    "2-fwl",
    "3-fwl",
    "subgraph-1-wl*",
    "subgraph-1-wl",
    "swl",
    "pswl",
    "gswl",
    "sswl",
    "2-lfwl",
    "2-slfwl",
)
"""Names of the Weisfeiler-Leman (WL) tests, as in `gnnak.wl.TESTS`."""
WL_HASHES = ("exact", "1-wl", "2-wl", "3-wl", "2-fwl", "3-fwl")
"""Values of the option `--hash` of `subgraph-1-wl`, as in `gnnak.wl.HASHES`."""
WL_READOUTS = ("vs", "sv")
"""Values of the option `--readout`, as in `gnnak.wl.pair_tests.READOUTS`."""
WL_FAMILIES = (
    "four-regular",
    "cycles",
    "trees",
    "regular",
    "circulant",
    "csl",
    "srg16",
    "srg25",
    "srg26",
    "srg28",
    "cfi-k4",
    "cfi-petersen",
    "cfi-heawood",
    "cfi-dodecahedron",
    "separating",
    "connected",
)
"""Names of the graph families that `gnnak wl lab` can run on: the keys of
`gnnak.wl.families.FAMILIES`."""
WL_NETWORKS = ("gin", "gin-ak", "gin-ak+", "ppgn", "ppgn-ak")
"""Names of the networks that `gnnak wl lab` runs by default, as in
`gnnak.wl.networks.LAB_NETWORKS`."""
BREC_GROUPS = (
    "basic",
    "regular",
    "strongly-regular",
    "extension",
    "cfi",
    "4-vertex",
    "distance-regular",
)
"""Names of the groups of pairs in BREC: the keys of `gnnak.brec.data.GROUPS`."""
GROWING = ("nodes", "hops", "channels", "coverage")
"""Quantities that `gnnak bench --grow` can vary: the keys of
`gnnak.training.measure.bench.RANGES`."""


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


OWN = "Your own data"
SIZES = "Often-changed settings"

Smiles = Annotated[
    str | None,
    typer.Option(
        help="Column with SMILES strings.",
        show_default="smiles",
        rich_help_panel=OWN,
    ),
]
Target = Annotated[
    list[str] | None,
    typer.Option(
        help="What to predict: column of the table, attribute of the graphs or nodes. "
        "May be repeated. For data sets with several targets: one of them.",
        rich_help_panel=OWN,
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        "--targets",
        help="Table with the targets of graphs, one row per graph.",
        rich_help_panel=OWN,
    ),
]
TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task",
        help="regression, classification (binary, multiclass) or multilabel.",
        show_default="told from the targets",
        rich_help_panel=OWN,
    ),
]
MetricOption = Annotated[
    str | None,
    typer.Option(
        "--metric",
        help="mae, rmse, r2, spearman, accuracy, roc-auc, f1, mcc, ...",
        show_default="mae, accuracy or roc-auc",
        rich_help_panel=OWN,
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        help="random (80:10:10), scaffold, column:NAME or files.",
        show_default="the file's, or random",
        rich_help_panel=OWN,
    ),
]
ValidationFile = Annotated[
    Path | None,
    typer.Option(
        "--validation",
        help="File with the validation graphs, for --split files.",
        rich_help_panel=OWN,
    ),
]
TestFile = Annotated[
    Path | None,
    typer.Option(
        "--test",
        help="File with the test graphs, for --split files.",
        rich_help_panel=OWN,
    ),
]
Folds = Annotated[
    int | None,
    typer.Option(
        min=3, help="Cross-validate with this many folds.", rich_help_panel=OWN
    ),
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad",
        help="Leave out rows that cannot be used, instead of stopping.",
        rich_help_panel=OWN,
    ),
]
NodeAttr = Annotated[
    list[str] | None,
    typer.Option(
        help="Node attribute of networkx graphs that is a feature. May be repeated.",
        show_default="x",
        rich_help_panel=OWN,
    ),
]
EdgeAttr = Annotated[
    list[str] | None,
    typer.Option(
        help="Edge attribute of networkx graphs that is a feature. May be repeated.",
        show_default="edge_attr",
        rich_help_panel=OWN,
    ),
]
Graphs = Annotated[
    int | None,
    typer.Option(
        min=3,
        help="Use only this many graphs: of own data the first ones, of a data set "
        "evenly spaced ones.",
        rich_help_panel=SIZES,
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option(min=1, help="Number of epochs.", rich_help_panel=SIZES),
]
BatchSize = Annotated[
    int | None,
    typer.Option(min=1, help="Graphs per training step.", rich_help_panel=SIZES),
]
LearningRate = Annotated[
    float | None,
    typer.Option("--lr", help="Initial learning rate.", rich_help_panel=SIZES),
]
Channels = Annotated[
    int | None,
    typer.Option(min=1, help="Width of the node states.", rich_help_panel=SIZES),
]
Layers = Annotated[
    int | None,
    typer.Option(min=1, help="Number of layers.", rich_help_panel=SIZES),
]


def own_values(**given: Any) -> dict[str, Any]:
    """Return options of the command line as options of `OwnData`, by name.

    Lists become tuples and paths become texts; options that are not given are left out.

    >>> own_values(targets=["logp"], labels=Path("labels.csv"), task=None)
    {'targets': ('logp',), 'labels': 'labels.csv'}
    """
    convert = {list: tuple, **dict.fromkeys((Path, type(Path())), str)}
    return {
        name: convert.get(type(value), lambda same: same)(value)
        for name, value in given.items()
        if value
    }


def import_own(module: str) -> None:
    """Import a module; also look for it in the current folder."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    try:
        importlib.import_module(module)
    except Exception as error:  # the user's module may raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise OptionError(
            f"the module {module} cannot be imported: {reason}; give the name of a "
            "module in the current folder or of an installed one."
        ) from error

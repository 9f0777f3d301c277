"""Options that several commands of `gnnak` share."""

import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnnak.cli.names import (
    ACCELERATORS,
    PROTOCOLS,
    TASKS,
    WL_HASHES,
    WL_READOUTS,
    WL_TESTS,
    check_data,
    check_file,
    check_metric,
    check_model,
    check_name,
    check_settings,
    check_split,
    check_tests,
)
from gnnak.errors import OptionError
from gnnak.training.processes.stopping import stoppable_at_once

if TYPE_CHECKING:
    from gnnak.training.config.run_config import RunConfig
    from gnnak.training.processes.machine import Machine


Experiment = Annotated[
    str,
    typer.Argument(
        callback=check_data,
        help="A data set (`gnnak datasets list`), a YAML file, or your own data: a "
        "CSV, npz, graph6, JSON, PyG or edge list file (text files also as .gz), or a "
        "folder of graphs.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        callback=check_settings,
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
    str,
    typer.Option(
        "--accelerator",
        callback=check_name("--accelerator", ACCELERATORS),
        help="auto, cpu or gpu.",
    ),
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
        min=1,
        help="Compute about this many node copies at a time: less memory, more time.",
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


Tests = Annotated[
    list[str] | None,
    typer.Option(
        "--test",
        callback=check_tests,
        help=f"May be repeated. One of: {', '.join(WL_TESTS)}; or a network, such as "
        "gin-ak+, for the test that bounds it.",
    ),
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
        callback=check_name("--hash", WL_HASHES),
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
        callback=check_name("--readout", WL_READOUTS),
        help="What swl, pswl, gswl and sswl pool first: nodes of a subgraph (vs), or "
        f"subgraphs of a node (sv). One of: {', '.join(WL_READOUTS)}.",
        show_default="vs",
    ),
]
Undirected = Annotated[
    bool | None,
    typer.Option(
        "--undirected/--directed",
        help="Whether edges that come in one direction only have no direction.",
        show_default="--directed, with a warning",
    ),
]
InitialLabels = Annotated[
    bool | None,
    typer.Option(
        "--labels/--no-labels",
        help="Whether features of nodes and edges are their initial colours.",
        show_default="--labels",
    ),
]
Memory = Annotated[
    float, typer.Option(help="Refuse tests that need more memory than this, in GiB.")
]

own_option = partial(typer.Option, rich_help_panel="Your own data")
size_option = partial(typer.Option, rich_help_panel="Often-changed settings")

Smiles = Annotated[
    str | None, own_option(help="Column with SMILES strings.", show_default="smiles")
]
Target = Annotated[
    list[str] | None,
    own_option(
        help="What to predict: column of the table, attribute of the graphs or nodes. "
        "May be repeated. For data sets with several targets: one of them."
    ),
]
Labels = Annotated[
    Path | None,
    own_option(
        "--targets",
        callback=check_file,
        help="Table with the targets of graphs, one row per graph.",
    ),
]
TaskOption = Annotated[
    str | None,
    own_option(
        "--task",
        callback=check_name("--task", TASKS),
        help="regression, classification (binary, multiclass) or multilabel.",
        show_default="told from the targets",
    ),
]
METRIC_NAMES = "mae, rmse, r2, spearman, accuracy, roc-auc, f1, mcc, ..."
MetricOption = Annotated[
    str | None,
    own_option(
        "--metric",
        callback=check_metric,
        help=METRIC_NAMES,
        show_default="mae, accuracy or roc-auc",
    ),
]
TrainedSmiles = Annotated[
    str | None,
    typer.Option(
        "--smiles", help="Column with SMILES strings.", show_default="as in training"
    ),
]
Split = Annotated[
    str | None,
    own_option(
        callback=check_split,
        help="random (80:10:10), scaffold, column:NAME or files.",
        show_default="the split or masks of the file, or random",
    ),
]
ValidationFile = Annotated[
    Path | None,
    own_option(
        "--validation",
        callback=check_file,
        help="File with the validation graphs, for --split files.",
    ),
]
TestFile = Annotated[
    Path | None,
    own_option(
        "--test",
        callback=check_file,
        help="File with the test graphs, for --split files.",
    ),
]
Folds = Annotated[
    int | None, own_option(min=3, help="Cross-validate with this many folds.")
]
SkipBad = Annotated[
    bool,
    own_option(
        "--skip-bad", help="Leave out rows that cannot be used, instead of stopping."
    ),
]
NodeAttr = Annotated[
    list[str] | None,
    own_option(
        help="Attribute of nodes that is a feature (JSON, PyG). May be repeated.",
        show_default="x",
    ),
]
EdgeAttr = Annotated[
    list[str] | None,
    own_option(
        help="Attribute of edges that is a feature (JSON, PyG). May be repeated.",
        show_default="edge_attr",
    ),
]
Graphs = Annotated[
    int | None,
    size_option(
        min=3,
        help="Use only this many graphs: of own data the first ones, of a data set "
        "evenly spaced ones.",
    ),
]
Epochs = Annotated[int | None, size_option(min=1, help="Number of epochs.")]
BatchSize = Annotated[
    int | None,
    size_option(min=1, help="Graphs, or nodes of one graph, per training step."),
]
LearningRate = Annotated[
    float | None, size_option("--lr", help="Initial learning rate.")
]
Channels = Annotated[int | None, size_option(min=1, help="Width of the node states.")]
Layers = Annotated[
    int | None,
    size_option("--layers", "--num-layers", min=1, help="Number of layers."),
]
NumHops = Annotated[
    int | None, size_option(min=0, help="k, the radius of the egonets of the model.")
]
Model = Annotated[
    str | None,
    typer.Option(
        callback=check_model,
        help="gin, gcn, pna*, ..., or your own package.module:Class; suffixes: "
        "-ak, -ak+, -ak+-s; or another subgraph GNN, such as sswl+-gin.",
        show_default="gin-ak+",
    ),
]
ProtocolOption = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        callback=check_name("--protocol", PROTOCOLS),
        help="split, published or held-out.",
    ),
]
Fold = Annotated[
    int | None,
    typer.Option(
        min=0, help="Run this fold (of one graph: this split) only, instead of all."
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, help="Seed of weights and batches.", show_default="0"),
]


def given(**options: Any) -> dict[str, Any]:
    """Return the options that were set on the command line, that is, are not None.

    >>> given(num_hops=2, hash=None, root_mark=False)
    {'num_hops': 2, 'root_mark': False}
    """
    return {name: value for name, value in options.items() if value is not None}


def options_by_test(
    tests: Sequence[str], options: dict[str, object]
) -> dict[str, dict[str, object]]:
    """Select, for each Weisfeiler-Leman test, the options that this test supports."""
    from gnnak.wl.bounds import find_test, options_of
    from gnnak.wl.options import read_options

    known = {test: options_of(test) for test in tests}
    for option in options:
        if not any(option in names for names in known.values()):
            raise OptionError(
                f"--{option.replace('_', '-')} means nothing to {', '.join(tests)}; "
                "drop it or name another --test."
            )
    chosen = {}
    for test, names in known.items():
        chosen[test] = {k: v for k, v in options.items() if k in names}
        found = find_test(test, chosen[test])
        read_options(found.test, **found.options)
    return chosen


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


def make_machine(
    accelerator: str, max_copies: int | None, plain: bool, **more: Any
) -> "Machine":
    """Build the `Machine` (devices and how to use them) from command-line options."""
    with stoppable_at_once():
        from gnnak.training.processes.machine import Machine

    return Machine(accelerator, max_copies=max_copies, fast=not plain, **more)  # type: ignore[arg-type]


def import_own(modules: Iterable[str] | None) -> None:
    """Import modules of the user; also look for them in the current folder."""
    for module in modules or ():
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        try:
            importlib.import_module(module)
        except Exception as error:  # the user's module may raise anything
            reason = " ".join(str(error).split()) or type(error).__name__
            raise OptionError(
                f"the module {module} cannot be imported: {reason}; give the name of a "
                "module in the current folder or of an installed one."
            ) from error


def find_model(name: str) -> str:
    """Normalise the name of a model; if it is a class of the user, import the class."""
    from gnnak.models.bases import find_class, is_own_name, module_of
    from gnnak.models.factory import normal_name, parse_name

    name = normal_name(name)
    base = parse_name(name).base
    if is_own_name(base):
        import_own([module_of(base)])
        find_class(base)
    return name


def next_step(best: Path, config: "RunConfig") -> str:
    """Return the command that predicts on new data; for data of gnnak, the path."""
    from gnnak.graphs.readers.files import format_suffix

    if config.data.own.path is None:
        return f"checkpoint: {best}"
    new = f"NEW{format_suffix(Path(config.data.own.path))}"
    command = f"gnnak predict {quote(str(best))} {new} -o out.csv"
    return f"predict for new data: {command}"

"""Options that several commands share, as dataclasses with one field per option."""

import importlib
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, get_type_hints

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from gnnak.cli.names import (
    ACCELERATORS,
    PROTOCOLS,
    SECTIONS,
    TASKS,
    WL_HASHES,
    WL_READOUTS,
    WL_TESTS,
    check_data,
    check_each,
    check_file,
    check_metric,
    check_model,
    check_name,
    check_settings,
    check_split,
    check_test,
    flag,
    option,
    own_option,
    size_option,
)
from gnnak.errors import OptionError, reason_of
from gnnak.training.config.options import parse_settings
from gnnak.training.processes.stopping import stoppable_at_once

if TYPE_CHECKING:
    from gnnak.training.config.run_config import RunConfig
    from gnnak.training.launch import Places
    from gnnak.training.processes.machine import Machine
    from gnnak.training.schedule.schedule import Schedule
    from gnnak.wl.bounds import Contender

GRAPH_FILES = (
    "CSV, Parquet, SMILES, npz, graph6, JSON, PyG or edge list file (text files also "
    "as .gz), or a folder of such files"
)
METRIC_NAMES = "mae, rmse, r2, spearman, accuracy, roc-auc, f1, mcc, ..."
JSON = flag("--json", help="Print JSON instead of a table.")
DATA_DIR = option(
    help="Folder with data files; default: $GNNAK_DATA, then the cache folder."
)
RUNS = typer.Option(Path("runs"), help="Folder for checkpoints and learning curves.")
RESULTS = typer.Option(Path("results"), help="Folder with the records of all runs.")
SETTINGS = option(
    "--set",
    metavar="KEY=VALUE",
    callback=check_settings,
    help="Set any option of the run (`gnnak train zinc --show` lists them). May be "
    "repeated.",
)
ACCELERATOR = typer.Option(
    "auto", callback=check_name("--accelerator", ACCELERATORS), help="auto, cpu or gpu."
)
MODULES = option(
    "--import",
    metavar="MODULE",
    help="Import a module with your own base GNN before the checkpoint is loaded. May "
    "be repeated.",
)
SMILES = own_option(help="Column with SMILES strings.", show_default="smiles")
LABELS = own_option(
    callback=check_file, help="Table with the targets of graphs, one row per graph."
)
SKIP_BAD = typer.Option(
    False,
    "--skip-bad",
    rich_help_panel="Your own data",
    help="Leave out rows that cannot be used, instead of stopping.",
)
TRAINED_SMILES = option(
    help="Column with SMILES strings.", show_default="as in training"
)
RAY = option(
    metavar="ADDRESS",
    help="Use a Ray cluster (extra `ray`): its address, such as 10.0.0.1:6379; auto, "
    "that of $RAY_ADDRESS or of this machine; or local, to start one here.",
    show_default="this machine, without Ray",
)
TESTS = option(
    "--test",
    callback=check_each(check_test),
    help=f"May be repeated. One of: {', '.join(WL_TESTS)}; or a network, such as "
    "gin-ak+, for the test that bounds it.",
)
MEMORY = typer.Option(2.0, help="Refuse tests that need more memory than this, in GiB.")
RUN_NAMES = "epochs batch_size lr channels layers num_hops protocol fold seed"
"""Fields of `RunOptions` that set options of a run, by short names such as `lr`."""


@dataclass
class DataOptions:
    experiment: str = typer.Argument(
        callback=check_data("a YAML file or of your own data"),
        help="A data set (`gnnak datasets list`), a YAML file, or your own data: a "
        f"{GRAPH_FILES}.",
    )
    model: str | None = option(
        callback=check_model,
        help="gin, gcn, pna*, ..., or your own package.module:Class; suffixes: "
        "-ak, -ak+, -ak+-s; or another subgraph GNN, such as sswl+-gin.",
        show_default="gin-ak+",
    )
    target: list[str] | None = own_option(
        help="What to predict: column of the table, attribute of the graphs or nodes. "
        "May be repeated. For data sets with several targets: one of them; for qm9, "
        "one or more, such as mu,alpha."
    )
    smiles: str | None = SMILES
    targets: Path | None = LABELS
    task: str | None = own_option(
        callback=check_name("--task", TASKS),
        help="regression, classification (binary, multiclass) or multilabel.",
        show_default="told from the targets",
    )
    skip_bad: bool = SKIP_BAD
    node_attr: list[str] | None = own_option(
        help="Attribute of nodes that is a feature (JSON, PyG). May be repeated.",
        show_default="x",
    )
    edge_attr: list[str] | None = own_option(
        help="Attribute of edges that is a feature (JSON, PyG). May be repeated.",
        show_default="edge_attr",
    )
    metric: str | None = own_option(
        callback=check_metric,
        help=METRIC_NAMES,
        show_default="mae, accuracy or roc-auc",
    )
    split: str | None = own_option(
        callback=check_split,
        help="random (80:10:10), scaffold, column:NAME or files.",
        show_default="the split of the file or the masks of one graph, or random",
    )
    validation: Path | None = own_option(
        callback=check_file, help="File with the validation graphs, for --split files."
    )
    test: Path | None = own_option(
        callback=check_file, help="File with the test graphs, for --split files."
    )
    folds: int | None = own_option(min=3, help="Cross-validate with this many folds.")
    batch_size: int | None = size_option(
        min=1, help="Graphs, or nodes of one graph, per training step."
    )
    lr: float | None = size_option(help="Initial learning rate.")
    channels: int | None = size_option(min=1, help="Width of the node states.")
    layers: int | None = size_option(
        "--layers", "--num-layers", min=1, help="Number of layers."
    )
    num_hops: int | None = size_option(
        min=0, help="k, the radius of the egonets of the model."
    )
    protocol: str | None = option(
        callback=check_name("--protocol", PROTOCOLS),
        help="split, published or held-out.",
    )
    fold: int | None = option(
        min=0, help="Run this fold (of one graph: this split) only, instead of all."
    )
    seed: int | None = option(
        min=0, help="Seed of weights and batches.", show_default="0"
    )
    best: bool = flag(
        "--best",
        help="Use the model and settings with the best score that is known to us "
        "(zinc); other options may change them.",
    )
    settings: list[str] | None = SETTINGS
    data_dir: Path | None = DATA_DIR

    def options(self) -> dict[str, Any]:
        """Return the options that the user set, except for the fields of `OwnData`."""
        named = {name: getattr(self, name, None) for name in RUN_NAMES.split()}
        options = given(**named)
        if self.model:
            options["model"] = find_model(self.model)
        return options | parse_settings(self.settings or [])

    def config(self, several_models: bool = False) -> tuple[str, "RunConfig"]:
        """Return the name of the experiment and the config of its runs."""
        from gnnak.training.config.experiment import find_config

        values = vars(self) | {"targets": self.target, "labels": self.targets}
        names = SECTIONS["data.own"].split()
        own = own_values(**{name: values.get(name) for name in names})
        given = self.experiment, self.options(), own, several_models
        return find_config(*given, best=self.best)


@dataclass
class RunOptions(DataOptions):
    """Options that `gnnak train` and `gnnak sweep` share."""

    graphs: int | None = size_option(
        min=3,
        help="Use only this many graphs: of own data the first ones, of a data set "
        "evenly spaced ones.",
    )
    epochs: int | None = size_option(min=1, help="Number of epochs.")
    runs: Path = RUNS
    results: Path | None = option(
        help="Folder for runs.jsonl, the records of all runs.",
        show_default="results; for your own data, the folder of --runs",
    )

    def places(self, config: "RunConfig") -> "Places":
        from gnnak.training.launch import Places

        return Places.of_run(config, self.data_dir, self.runs, self.results)


@dataclass
class MachineOptions:
    accelerator: str = ACCELERATOR
    max_copies: int | None = option(
        min=1,
        help="Compute about this many node copies at a time: less memory, more time.",
    )
    plain: bool = flag(
        "--plain",
        help="No fused kernels, no captured CUDA graphs: slower, the same results.",
    )

    def machine(self, **more: Any) -> "Machine":
        with stoppable_at_once():
            from gnnak.training.processes.machine import Machine

        options = vars(self) | more
        return Machine(fast=not options.pop("plain"), **options)


@dataclass
class TrainingMachine(MachineOptions):
    recompute: bool = flag(
        "--recompute",
        help="Recompute activations in the backward pass: less memory, more time.",
    )


@dataclass
class ScheduleOptions:
    """Options for doing many runs: how many in parallel, and for how long."""

    jobs: int = typer.Option(1, min=1, help="Number of runs in parallel on the device.")
    minutes: float | None = option(
        min=0,
        help="Stop after this time. A run starts only if it is expected to end in "
        "time; unfinished runs are resumed the next time.",
        show_default="when all runs are done",
    )
    long: bool = flag(
        "--long",
        help="With --minutes: also start runs that will not end in time; they are "
        "resumed the next time.",
    )
    dry_run: bool = flag(
        "--dry-run", help="List the runs with their expected time and exit."
    )
    ray: str | None = RAY

    def schedule(self, places: "Places", machine: "Machine") -> "Schedule":
        from gnnak.training.schedule.schedule import Schedule

        if self.ray is not None:
            places = places.with_data_folder()
        return Schedule(places, machine, self.jobs, self.minutes, self.long, self.ray)


@dataclass
class WLOptions:
    """Options of Weisfeiler-Leman tests; see `gnnak.wl.Options`."""

    num_hops: int | None = option(
        help="Radius of the egonets.",
        show_default="1, of networks 3; whole graphs in swl, pswl, gswl, sswl, 2-lfwl "
        "and 2-slfwl, and for sswl, sswl+ and l2fgnn",
    )
    hash: str | None = option(
        callback=check_name("--hash", WL_HASHES),
        help="Test that subgraph-1-wl applies to each egonet, one of: "
        f"{', '.join(WL_HASHES)}.",
        show_default="exact",
    )
    d2c: bool | None = option(
        "--d2c", help="Initial colours include the distance to the root."
    )
    root_mark: bool | None = option(
        "--root-mark/--no-root-mark",
        help="The root has a distinct initial colour.",
        show_default="only in swl, pswl, gswl, sswl, 2-lfwl and 2-slfwl",
    )
    centroid: bool | None = option(
        "--centroid", help="A node's new colour includes its colour in its own egonet."
    )
    context: bool | None = option(
        "--context", help="A node's new colour includes its colours in all egonets."
    )
    readout: str | None = option(
        callback=check_name("--readout", WL_READOUTS),
        help="What swl, pswl, gswl and sswl pool first: nodes of a subgraph (vs), or "
        f"subgraphs of a node (sv). One of: {', '.join(WL_READOUTS)}.",
        show_default="vs",
    )


@dataclass
class WLGraphOptions(WLOptions):
    """Options of Weisfeiler-Leman tests on the user's own graphs."""

    undirected: bool | None = option(
        "--undirected/--directed",
        help="Whether edges that come in one direction only have no direction.",
        show_default="--directed, with a warning",
    )
    labels: bool | None = option(
        "--labels/--no-labels",
        help="Whether features of nodes and edges are their initial colours.",
        show_default="--labels",
    )
    max_memory: float = typer.Option(8.0, help=MEMORY.help)


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Decorator: replace a command's dataclass parameters by one option per field."""
    hints: dict[str, Any] = get_type_hints(command)
    groups: dict[str, Any] = {k: v for k, v in hints.items() if is_dataclass(v)}
    parameters = []
    for name, old in inspect.signature(command).parameters.items():
        found = {name: (hints[name], old.default)}
        if name in groups:
            kinds = get_type_hints(groups[name])
            found = {f.name: (kinds[f.name], f.default) for f in fields(groups[name])}
        parameters += [
            inspect.Parameter(each, old.KEYWORD_ONLY, default=default, annotation=kind)
            for each, (kind, default) in found.items()
        ]

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{f.name: given.pop(f.name) for f in fields(group)})
        command(**given)

    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def given(**options: Any) -> dict[str, Any]:
    """Return the options that were set on the command line, that is, are not None."""
    return {name: value for name, value in options.items() if value is not None}


def find_contenders(
    tests: Sequence[str], options: dict[str, object]
) -> list["Contender"]:
    """Return WL tests with the options that each supports; refuse unused options."""
    from gnnak.wl.bounds import find_test, options_of

    known = {test: options_of(test) for test in tests}
    for name in options:
        if not any(name in names for names in known.values()):
            told = f"--{name.replace('_', '-')} means nothing to {', '.join(tests)}"
            raise OptionError(f"{told}; drop it or name another --test.")
    return [
        find_test(test, {k: v for k, v in options.items() if k in names})
        for test, names in known.items()
    ]


def own_values(**given: Any) -> dict[str, Any]:
    """Convert options of the command line to fields of `OwnData`; skip empty ones."""
    convert = {list: tuple, **dict.fromkeys((Path, type(Path())), str)}
    return {
        name: convert.get(type(value), lambda same: same)(value)
        for name, value in given.items()
        if value
    }


def import_own(modules: Iterable[str] | None) -> None:
    """Import modules of the user; also look for them in the current folder."""
    for module in modules or ():
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        try:
            importlib.import_module(module)
        except Exception as error:  # the user's module may raise anything
            raise OptionError(
                f"the module {module} cannot be imported: {reason_of(error)}; give the "
                "name of a module in the current folder or of an installed one."
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
    from gnnak.graphs.readers.files import format_suffix

    if config.data.own.path is None:
        return f"checkpoint: {best}"
    new = f"NEW{format_suffix(Path(config.data.own.path))}"
    command = f"gnnak predict {quote(str(best))} {new} -o out.csv"
    return f"predict for new data: {command}"


def progress_bar(*columns: ProgressColumn) -> Progress:
    """Return a progress bar for stderr; it is hidden unless stderr is a terminal."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description:44}"),
        BarColumn(),
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def shown_score(score: float | None) -> str:
    """Round to four decimals, or to four digits if the score is small.

    >>> shown_score(0.0314159), shown_score(0.00314159)
    ('0.0314', '0.003142')
    """
    if score is None or not math.isfinite(score):
        return "undefined"
    return f"{score:.4g}" if 0 < abs(score) < 0.01 else f"{score:.4f}"


def show(*parts: Table | str) -> None:
    """Print tables and lines of text, without interpreting any text as markup."""
    console = Console(highlight=False)
    for part in parts:
        console.print(part, markup=False, soft_wrap=isinstance(part, str))

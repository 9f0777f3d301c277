"""Options that several commands of `gnnak` share, and what their values mean."""

import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from gnnak.cli.names import (
    ACCELERATORS,
    WL_TESTS,
    check_each,
    check_file,
    check_name,
    check_settings,
    check_test,
)
from gnnak.errors import OptionError

if TYPE_CHECKING:
    from gnnak.training.config.run_config import RunConfig

option = partial(typer.Option, None)
flag = partial(typer.Option, False)
own_option = partial(typer.Option, None, rich_help_panel="Your own data")
size_option = partial(typer.Option, None, rich_help_panel="Often-changed settings")

GRAPH_FILES = (
    "CSV, npz, graph6, JSON, PyG or edge list file (text files also as .gz), or a "
    "folder of graphs"
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
    "auto",
    callback=check_name("--accelerator", ACCELERATORS),
    help="auto, cpu or gpu.",
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
TESTS = option(
    "--test",
    callback=check_each(check_test),
    help=f"May be repeated. One of: {', '.join(WL_TESTS)}; or a network, such as "
    "gin-ak+, for the test that bounds it.",
)
MEMORY = typer.Option(2.0, help="Refuse tests that need more memory than this, in GiB.")


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
        find_test(test, chosen[test])  # raises an error if a value is wrong
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


def progress_bar(*columns: ProgressColumn) -> Progress:
    """Return a progress bar on a terminal's stderr, which is removed at its end."""
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

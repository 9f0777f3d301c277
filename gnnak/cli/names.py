"""Names of models, data sets and options, and their checks; PyTorch is not imported."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import typer

from gnnak.errors import FileFormatError
from gnnak.training.config.options import full_name, parse_settings, unknown_option
from gnnak.typing import check_choice, check_known, unknown_model


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


WL_TESTS = _names(
    "1-wl 2-wl 3-wl 2-fwl 3-fwl subgraph-1-wl* subgraph-1-wl swl pswl gswl sswl 2-lfwl "
    "2-slfwl"
)
"""Names of the Weisfeiler-Leman (WL) tests, as in `gnnak.wl.TESTS`."""
WL_HASHES = ("exact", "1-wl", "2-wl", "3-wl", "2-fwl", "3-fwl")
"""Values of the option `--hash` of `subgraph-1-wl`, as in `gnnak.wl.HASHES`."""
WL_READOUTS = ("vs", "sv")
"""Values of the option `--readout`, as in `gnnak.wl.pair_tests.READOUTS`."""
WL_FAMILIES = _names(
    "four-regular cycles trees regular circulant csl srg16 srg25 srg26 srg28 cfi-k4 "
    "cfi-petersen cfi-heawood cfi-dodecahedron separating connected"
)
"""Names of the graph families of `gnnak wl lab`, as in `gnnak.wl.families.FAMILIES`."""
WL_NETWORKS = ("gin", "gin-ak", "gin-ak+", "ppgn", "ppgn-ak")
"""The default networks of `gnnak wl lab`, as in `gnnak.wl.lab.LAB_NETWORKS`."""
BREC_GROUPS = _names(
    "basic regular strongly-regular extension cfi 4-vertex distance-regular"
)
"""Names of the groups of pairs in BREC: the keys of `gnnak.brec.data.GROUPS`."""
GROWING = ("nodes", "hops", "channels", "coverage")
"""Values of `gnnak bench --grow`, as in `gnnak.training.measure.bench.RANGES`."""
BASES = ("gin", "gcn", "sage", "gat", "gatedgcn", "pna", "pna*", "ppgn")
"""Names of the base GNNs, as in `gnnak.models.bases.BASES`."""
SUFFIXES = ("", "-ak", "-ak+", "-ak-s", "-ak+-s")
"""Suffixes of model names, as in `gnnak.models.factory.SUFFIXES`."""
MEMBERS = _names("khop ego id id-fast nested ds dss sun sswl sswl+ l2fgnn")
"""Names of subgraph GNNs other than GNN-AK, as in `gnnak.models.members.MEMBERS`."""
METRICS = _names(
    "mae std-mae mse rmse log10-mse r2 explained-variance pearson spearman kendall "
    "concordance mape accuracy class-recall precision specificity f1 mcc kappa "
    "calibration-error roc-auc average-precision"
)
"""Names of the metrics, as in `gnnak.datasets.record.METRICS`."""
TASKS = ("regression", "classification", "multilabel", "binary", "multiclass")
"""Values of `--task`, as in `gnnak.datasets.own.options`."""
SPLITS = ("random", "scaffold", "files", "column:NAME")
PROTOCOLS = ("split", "published", "held-out")
PARTS = ("train", "validation", "test")
ACCELERATORS = ("auto", "cpu", "gpu")
SECTIONS = {
    "data": "name target protocol fold seed",
    "data.own": "path smiles targets labels task metric split validation test folds "
    "skip_bad node_attr edge_attr graphs",
    "model": "hop_channels encodings reduce fuse dropout mlp_layers gate_centroid "
    "pairs name num_layers base_layers channels plain_conv residual",
    "model.subgraphs": "kind num_hops length repeats p q copy_limit max_neighbors seed "
    "size alpha",
    "model.family": "pairs max_distance num_steps pair_dropout reduce order norm "
    "context",
    "model.drop": "strategy min_coverage ties share",
    "train": "epochs batch_size num_neighbors optimizer learning_rate weight_decay "
    "warm_up schedule step patience factor stop_rate loss clip average early_stop "
    "precision recalibrate seed",
}
"""Names of the options of a run by section, as in `RunConfig`."""
OPTIONS = [f"{key}.{name}" for key, names in SECTIONS.items() for name in names.split()]
CONFIGS = Path(__file__).parents[1] / "configs"
DATASETS = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
"""Names of the data sets; each has a YAML file of its settings."""
PRETRAINED = Path(__file__).parents[1] / "pretrained"
TABLES = sorted(path.stem for path in CONFIGS.glob("tables/[!_]*.yaml"))


option = partial(typer.Option, None)
flag = partial(typer.Option, False)
own_option = partial(typer.Option, None, rich_help_panel="Your own data")
size_option = partial(typer.Option, None, rich_help_panel="Often-changed settings")


def examples(*commands: str) -> str:
    """Format example commands as Markdown, for the end of a help text."""
    return "\n\n".join(["\nExamples:", *(f"    {each}" for each in commands)]) + "\n"


def typer_app(help: str, epilog: str, name: str | None = None) -> typer.Typer:
    return typer.Typer(
        name=name,
        help=help,
        epilog=epilog,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
    )


def check_each(check: Callable[[Any], object]) -> Callable[[list | None], list | None]:
    """Return a callback that calls `check` on each value of a repeated option."""

    def check_all(values: list | None) -> list | None:
        for value in values or ():
            check(value)
        return values

    return check_all


def check_name(flag: str, known: Sequence[str]) -> Callable[[str | None], str | None]:
    """Return a callback that refuses values not in `known`; case is ignored."""

    def check(value: str | None) -> str | None:
        if value is not None and value.lower() not in known:
            check_choice(flag, value, known)
        return value

    return check


def check_split(split: str | None) -> str | None:
    if split is not None and not split.lower().startswith("column:"):
        check_name("--split", SPLITS)(split)
    return split


def check_metric(name: str | None) -> str | None:
    if name is not None:
        check_known("metric", name.lower(), METRICS)
    return name


def check_data(files: str) -> Callable[[str], str]:
    """Return a callback that accepts only names of data sets and existing paths."""

    def check(name: str) -> str:
        path = Path(name)
        if name.lower() not in DATASETS and not path.exists():
            if path.suffix or len(path.parts) > 1:
                check_file(path)
            check_known("data set or file", name, DATASETS, f", or the path of {files}")
        return name

    return check


def check_dataset(name: str) -> None:
    check_known("data set", name.lower(), DATASETS)


def check_table(name: str | None) -> str | None:
    if name is not None:
        check_known("table", name, TABLES)
    return name


def check_tables(names: str) -> None:
    for name in names.split(","):
        if name.strip() not in ("", "all"):
            check_table(name.strip())


def check_file(path: Path | None) -> Path | None:
    if path is not None and not path.exists():
        raise FileFormatError(
            f"there is no file or folder {path}; check the path, which is relative to "
            "the folder in which the command is given."
        )
    return path


def check_trained(path: Path) -> Path:
    installed = sorted(each.name for each in PRETRAINED.glob("*") if each.is_dir())
    if not path.exists() and str(path).lower() not in installed:
        raise FileFormatError(
            f"there is no file {path}; give a checkpoint, a folder of save_pretrained, "
            f"or a network that is installed with gnnak: {', '.join(installed)}."
        )
    return path


def check_model(name: str | None) -> str | None:
    """Raise `OptionError` unless a name is a model, or may be a user's class."""
    if name is not None and ":" not in name and name.lower() not in _model_names():
        raise unknown_model(name.lower(), _model_names(), BASES, MEMBERS)
    return name


def _model_names() -> list[str]:
    uplifted = [base + suffix for base in BASES for suffix in SUFFIXES]
    return uplifted + [f"{member}-{base}" for member in MEMBERS for base in BASES]


def check_test(name: str) -> str:
    if name.lower() not in _model_names():
        more = ", or a network such as gin-ak+ or sswl+-gin"
        check_known("test", name, WL_TESTS, more)
    return name


def check_settings(settings: list[str] | None) -> list[str] | None:
    for key in parse_settings(settings or []):
        _check_option(key)
    return settings


def check_over(text: str) -> None:
    _check_option(text.partition("=")[0].strip())


def _check_option(key: str) -> None:
    prefix = ""
    for part in full_name(key, OPTIONS).split("."):
        inside = [
            each.removeprefix(prefix) for each in OPTIONS if each.startswith(prefix)
        ]
        known = list(dict.fromkeys(each.partition(".")[0] for each in inside))
        if known and part not in known:
            raise unknown_option(key, part, known)
        prefix += f"{part}."

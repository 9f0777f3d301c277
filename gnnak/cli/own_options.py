"""Options for the user's own data, and for often-changed settings."""

from pathlib import Path
from typing import Annotated, Any

import typer

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

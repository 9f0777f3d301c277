"""`gnnak demo`: train GIN and GIN-AK+ on generated graphs and compare them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from gnnak.cli.names import examples, flag
from gnnak.cli.options import show
from gnnak.errors import OptionError
from gnnak.training.processes.stopping import stoppable_at_once

if TYPE_CHECKING:
    from gnnak.training.records.results import Record

EXAMPLES = examples(
    "gnnak demo",
    "gnnak demo --seed 1 --epochs 60 --picture curves.png",
    "gnnak demo --json",
)


def demo(
    epochs: int = typer.Option(20, min=1, help="Epochs of each model."),
    seed: int = typer.Option(0, min=0, help="Seed of graphs and weights."),
    picture: Path = typer.Option(
        Path("demo/gnnak-demo.png"), help="Where to write the picture."
    ),
    as_json: bool = flag("--json", help="Print one JSON object instead of a table."),
) -> None:
    """Train a GIN and a GIN-AK+, which runs the GIN on subgraphs; compare both.

    The task: does this 4-regular graph have a triangle? To message passing all nodes
    of a regular graph look the same, so the plain GIN stays at chance (50 %); GIN-AK+
    sees 1-hop egonets and gets every test graph right.
    """
    if picture.suffix not in (".png", ".pdf", ".svg"):
        raise OptionError(f"--picture is {picture}; end it in .png, .pdf or .svg.")
    picture.parent.mkdir(parents=True, exist_ok=True)
    with stoppable_at_once():
        import gnnak.training.run  # noqa: F401, PyTorch and other large packages
        from gnnak.report.pictures import plot_demo
    begin = time.perf_counter()
    records = _train(epochs, seed)
    plot_demo({n: r["curves"]["validation"] for n, r in records.items()}, picture)
    _print(records, picture, time.perf_counter() - begin, as_json)


def _train(epochs: int, seed: int) -> dict[str, Record]:
    from gnnak.datasets import load_dataset
    from gnnak.training.config.experiment import load_experiment
    from gnnak.training.config.options import change
    from gnnak.training.processes.machine import Machine
    from gnnak.training.run import run

    dataset = load_dataset("triangles", seed=seed)
    options = {"train.epochs": epochs, "train.seed": seed, "data.seed": seed}
    config = change(load_experiment("triangles").config, options)
    records = {}
    with TemporaryDirectory() as folder:
        for name in ("gin", "gin-ak+"):
            records[name] = run(
                change(config, {"model.name": name}),
                dataset,
                Path(folder) / name,
                Machine("cpu"),
                console=Console(stderr=True),
            )
    return records


def _print(
    records: dict[str, Record], picture: Path, seconds: float, as_json: bool
) -> None:
    accuracy = {name: record["scores"]["test"] for name, record in records.items()}
    weights = {name: record["parameters"] for name, record in records.items()}
    if as_json:
        shown = {"accuracy": accuracy, "weights": weights, "picture": str(picture)}
        typer.echo(json.dumps(shown | {"seconds": round(seconds, 1)}))
        return
    table = Table("model", "weights", "test accuracy", title="Has it a triangle?")
    for name in records:
        table.add_row(name, f"{weights[name]:,}", f"{accuracy[name]:.1%}")
    show(table, f"Picture: {picture}   ({seconds:.0f} s)")

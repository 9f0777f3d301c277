"""`gnnak demo`: a GNN and its uplifted form, side by side, on data built here."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch import Tensor, nn
from torch_geometric.nn import GIN, global_add_pool

from gnnak.datasets.regular import regular_triangles
from gnnak.errors import OptionError
from gnnak.graphs import GraphBatch, GraphStore
from gnnak.graphs.named import four_regular_pair
from gnnak.nn import uplift
from gnnak.report.pictures import draw_curves, draw_egonet, draw_graph, save

EXAMPLES = """
Examples:

    gnnak demo

    gnnak demo --seed 1 --epochs 60 --picture curves.png

    gnnak demo --json
"""
BATCH_SIZE = 32


class GraphClassifier(nn.Module):
    """A plain PyG model: GIN, sum readout, Linear."""

    def __init__(self, channels: int = 24, num_layers: int = 3) -> None:
        super().__init__()
        self.gin = GIN(1, channels, num_layers, norm="batch_norm", jk="cat")
        self.head = nn.Linear(channels, 2)

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, num_graphs: int
    ) -> Tensor:
        """Two scores per graph."""
        states = self.gin(x, edge_index)
        return self.head(global_add_pool(states, batch, size=num_graphs))


def demo(
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of each model.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="Fixes data and weights.")] = 0,
    picture: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path(
        "demo/gnnak-demo.png"
    ),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Train a GNN and its uplifted form side by side.

    The task: does this 4-regular graph have a triangle? To message passing all nodes
    of a regular graph look the same, so the plain GIN stays at chance (50 %);
    `uplift(GIN(...), num_hops=1)` sees egonets and gets every test graph right.
    """
    if picture.suffix not in (".png", ".pdf", ".svg"):
        raise OptionError(f"--picture is {picture}; end it in .png, .pdf or .svg.")
    picture.parent.mkdir(parents=True, exist_ok=True)
    console, begin = Console(stderr=as_json), time.perf_counter()
    train, test = regular_triangles(100, seed), regular_triangles(50, seed + 10_000)
    torch.manual_seed(seed)
    models = {
        "GIN": GraphClassifier(),
        "uplift(GIN, num_hops=1)": uplift(GraphClassifier(), num_hops=1),
    }
    curves: dict[str, list[float]] = {}
    columns = (TextColumn("{task.description:24}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        for name, model in models.items():
            task = progress.add_task(name, total=epochs)
            advance = partial(progress.advance, task)
            curves[name] = fit(model, train, test, epochs, seed, advance)
    _draw(curves, picture)
    seconds = time.perf_counter() - begin
    _tell(console, models, curves, picture, seconds, as_json)


def fit(
    model: nn.Module,
    train: GraphStore,
    test: GraphStore,
    epochs: int,
    seed: int,
    advance: Callable[[], None],
) -> list[float]:
    """Train with Adam; return the share of test graphs right after each epoch."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    curve = []
    for _ in range(epochs):
        model.train()
        for indices in torch.randperm(len(train), generator=generator).split(
            BATCH_SIZE
        ):
            scores, labels = _run(model, train[indices])
            loss = nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        model.eval()
        with torch.no_grad():
            scores, labels = _run(model, test[:])
        curve.append(float((scores.argmax(dim=1) == labels).double().mean()))
        advance()
    return curve


def _run(model: nn.Module, batch: GraphBatch) -> tuple[Tensor, Tensor]:
    """Scores and labels of a batch; the one node feature is constant."""
    assert batch.y is not None
    x = torch.ones(batch.num_nodes, 1)
    return model(x, batch.edge_index, batch.batch, batch.num_graphs), batch.y


def _draw(curves: dict[str, list[float]], path: Path) -> None:
    figure = Figure(figsize=(11, 6.2), layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=(1, 1, 1.5))
    for row, (letter, graph) in enumerate(zip("AB", four_regular_pair(), strict=True)):
        left, right = (figure.add_subplot(grid[row, column]) for column in (0, 1))
        draw_graph(left, graph, 0, 1, f"4-regular graph {letter}")
        draw_egonet(
            right, graph, 0, 1, f"rooted subgraph of node 0 in {letter}, by hop"
        )
    last = figure.add_subplot(grid[:, 2])
    draw_curves(last, curves, "share of test graphs right", "has it a triangle?")
    last.set_ylim(0.0, 1.04)
    save(figure, path)


def _tell(
    console: Console,
    models: dict[str, nn.Module],
    curves: dict[str, list[float]],
    picture: Path,
    seconds: float,
    as_json: bool,
) -> None:
    weights = {
        name: sum(p.numel() for p in model.parameters())
        for name, model in models.items()
    }
    if as_json:
        told = {
            "accuracy": {name: curve[-1] for name, curve in curves.items()},
            "weights": weights,
            "picture": str(picture),
            "seconds": round(seconds, 1),
        }
        typer.echo(json.dumps(told))
        return
    table = Table("model", "weights", "test accuracy", title="Has it a triangle?")
    for name, curve in curves.items():
        table.add_row(name, f"{weights[name]:,}", f"{curve[-1]:.1%}")
    console.print(table)
    console.print(f"Picture: {picture}   ({seconds:.0f} s)")

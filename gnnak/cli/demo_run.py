"""The work of `gnnak demo`: train two models and plot their learning curves."""

from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib.figure import Figure
from rich.console import Console

from gnnak.datasets import load_dataset
from gnnak.graphs.named import four_regular_pair
from gnnak.report.pictures import plot_curves, plot_egonet, plot_graph, save
from gnnak.training.config.experiment import load_experiment
from gnnak.training.config.options import change
from gnnak.training.processes.machine import Machine
from gnnak.training.records.results import Record
from gnnak.training.run import run

MODELS = ("gin", "gin-ak+")


def train_models(epochs: int, seed: int) -> dict[str, Record]:
    """Train GIN and GIN-AK+ on the data set `triangles`, as `gnnak train` does.

    The checkpoints are written to a temporary folder.

    Args:
        epochs: Number of epochs that each model is trained for.
        seed: Seed of graphs and weights.

    Returns:
        For each model, a JSON object with its scores and learning curves.
    """
    dataset = load_dataset("triangles", seed=seed)
    options = {"train.epochs": epochs, "train.seed": seed, "data.seed": seed}
    config = change(load_experiment("triangles").config, options)
    records = {}
    with TemporaryDirectory() as folder:
        for name in MODELS:
            records[name] = run(
                change(config, {"model.name": name}),
                dataset,
                Path(folder) / name,
                Machine("cpu"),
                console=Console(stderr=True),
            )
    return records


def plot_demo(curves: dict[str, list[float]], path: Path) -> None:
    """Plot two 4-regular graphs, an egonet of each, and the learning curves.

    Args:
        curves: For each model, the validation accuracy after each epoch.
        path: Image file to write.
    """
    figure = Figure(figsize=(11, 6.2), layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=(1, 1, 1.5))
    for row, (letter, graph) in enumerate(zip("AB", four_regular_pair(), strict=True)):
        left, right = (figure.add_subplot(grid[row, column]) for column in (0, 1))
        plot_graph(left, graph, 0, 1, f"4-regular graph {letter}")
        plot_egonet(
            right, graph, 0, 1, f"rooted subgraph of node 0 in {letter}, by hop"
        )
    last = figure.add_subplot(grid[:, 2])
    plot_curves(last, curves, "share of validation graphs right", "has it a triangle?")
    last.set_ylim(0.0, 1.04)
    save(figure, path)

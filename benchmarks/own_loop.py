"""Measure a user's own training loop, with PyG's loader, with ours and with the step.

The model is a GINE as a PyG user writes it, plain and uplifted. All loops train on the
same graphs in one process, so that their times can be compared. The command
prints a Markdown table with times as ratios to PyG's loader and a plain loop. Run

    python -m benchmarks.own_loop [--graphs 10000] [--epochs 3] [--out FILE]

It uses a GPU if there is one.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINEConv, global_add_pool

import gnnak
from gnnak.datasets import load_dataset
from gnnak.graphs import to_pyg

LOADERS = ("PyG loader, plain loop", "GraphLoader, plain loop")
STEP = "GraphLoader + TrainingStep"
BF16 = "GraphLoader + TrainingStep, bf16 autocast"


class Gine(nn.Module):
    """A GINE for ZINC, with embeddings of atoms and bonds.

    Args:
        channels: Width of the node states.
        num_layers: Number of convs.
    """

    def __init__(self, channels: int, num_layers: int) -> None:
        super().__init__()
        self.atoms = nn.Embedding(28, channels)
        self.bonds = nn.Embedding(4, channels)
        self.convs = nn.ModuleList(GINEConv(_mlp(channels)) for _ in range(num_layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(channels) for _ in range(num_layers))
        self.head = nn.Linear(channels, 1)

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor
    ) -> Tensor:
        """Predict one number for each graph, [g]."""
        h, e = self.atoms(x.flatten()), self.bonds(edge_attr.flatten())
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = h + norm(conv(h, edge_index, e)).relu()
        return self.head(global_add_pool(h, batch)).flatten()


def _mlp(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(channels, channels),
        nn.BatchNorm1d(channels),
        nn.ReLU(),
        nn.Linear(channels, channels),
    )


def loss(output: Tensor, batch: Data) -> Tensor:
    """Return the mean absolute error."""
    return (output - batch.y.flatten()).abs().mean()


def plain_step(model: nn.Module, device: str) -> Callable[[Data], Tensor]:
    """Return the training step that users write."""
    optimizer = torch.optim.Adam(model.parameters())

    def step(batch: Data) -> Tensor:
        batch = batch.to(device)
        optimizer.zero_grad()
        output = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
        value = loss(output, batch)
        value.backward()
        optimizer.step()
        return value.detach()

    return step


def seconds(
    loader: Iterable[Data], step: Callable[[Data], Tensor], epochs: int, device: str
) -> tuple[float, float]:
    """Return the time of the fastest epoch, after one that is not timed, and the loss.

    Args:
        loader: Yields the batches of an epoch.
        step: Trains on one batch.
        epochs: Number of timed epochs.
        device: "cpu" or "cuda".
    """
    times = []
    value = torch.zeros(())
    for _ in range(1 + epochs):
        began = time.perf_counter()
        for batch in loader:
            value = step(batch)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return min(times[1:]), float(value)


def measure(options: argparse.Namespace, device: str) -> list[dict[str, Any]]:
    """Measure all loops, and return one record for each of them."""
    store = load_dataset("zinc").store
    count = min(options.graphs, len(store))
    graphs = to_pyg(store.subset(slice(0, count)))
    size, records = options.batch_size, []
    for kind in ("plain", "uplifted"):
        subgraphs = gnnak.EgoNets(options.hops) if kind == "uplifted" else None
        loaders: dict[str, Any] = {
            LOADERS[0]: DataLoader(graphs, size, shuffle=True),
            LOADERS[1]: gnnak.GraphLoader(
                graphs, size, shuffle=True, device=device, subgraphs=subgraphs
            ),
        }
        loaders[STEP] = loaders[BF16] = loaders[LOADERS[1]]
        for name, loader in loaders.items():
            torch.manual_seed(0)
            model: nn.Module = Gine(options.channels, options.layers)
            if kind == "uplifted":
                model = gnnak.uplift(model, num_hops=options.hops)
            model = model.to(device).train()
            step: Any = plain_step(model, device)
            if name in (STEP, BF16):
                optimizer = torch.optim.Adam(model.parameters())
                autocast = torch.bfloat16 if name == BF16 else None
                step = gnnak.TrainingStep(model, loss, optimizer, autocast=autocast)
            if device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            spent, last = seconds(loader, step, options.epochs, device)
            record = {"model": kind, "loop": name, "seconds": spent, "loss": last}
            if device == "cuda":
                record["peak_mb"] = torch.cuda.max_memory_allocated() / 2**20
            records.append(record)
            print(f"{kind:9} {name:28} {spent:8.3f} s an epoch", flush=True)
    return records


def table(records: list[dict[str, Any]]) -> str:
    """Return a Markdown table of the records, with times relative to PyG's loader."""
    lines = ["| model | loop | s an epoch | ratio |", "|---|---|---|---|"]
    first = {r["model"]: r["seconds"] for r in records if r["loop"] == LOADERS[0]}
    for r in records:
        ratio = r["seconds"] / first[r["model"]]
        cells = (r["model"], r["loop"], f"{r['seconds']:.3f}", f"{ratio:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Parse the command line, measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hops", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    records = measure(options, device)
    print(table(records))
    if options.out is not None:
        name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
        settings = {k: v for k, v in vars(options).items() if k != "out"}
        about = {"kind": "own-loop", "device": name, "torch": torch.__version__}
        with options.out.open("a") as file:
            for record in records:
                file.write(json.dumps(about | settings | record) + "\n")


if __name__ == "__main__":
    main()

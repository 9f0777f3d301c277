"""Measure a user's own training loop, with PyG's loader, with ours and with the step.

The model is a GINE as a PyG user writes it, plain and uplifted. All loops train on the
same graphs in one process, so that their times can be compared. The command
prints a Markdown table with times as ratios to PyG's loader and a plain loop. Run

    python -m benchmarks.own_loop [--graphs 10000] [--epochs 20] [--out FILE]

It uses a GPU if there is one. The time of a loop is that of its fastest epoch; the
median of its epochs stands next to it. To measure `DistributedDataParallel`, with
`--batch-size` graphs in all processes together, run

    torchrun --standalone --nproc-per-node 1 -m benchmarks.own_loop --ddp nccl

With `--ddp gloo`, several processes can share a GPU.
"""

import argparse
import gc
import os
import statistics
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINEConv, global_add_pool

import gnnak
from benchmarks.markdown import markdown
from gnnak.datasets import load_dataset
from gnnak.device import peak_megabytes, reset_peak
from gnnak.graphs import to_pyg
from gnnak.training.records.results import Record, append_record, environment

PYG = "PyG loader, plain loop"
STEP = "GraphLoader + TrainingStep"
BF16 = "GraphLoader + TrainingStep, bf16 autocast"
DDP = "GraphLoader + TrainingStep, DistributedDataParallel"
LOOPS = (PYG, "GraphLoader, plain loop", STEP, BF16)
UNTIMED = 2
"""Number of epochs before those that are timed: kernels are compiled and captured."""


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
    """Return a training step as users write it, without `TrainingStep`.

    Args:
        model: The model.
        device: "cpu" or "cuda": where the model is and batches are moved.
    """
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
) -> tuple[list[float], float]:
    """Return the times of the epochs, after two that are not timed, and the loss.

    Args:
        loader: Yields the batches of an epoch.
        step: Trains on one batch.
        epochs: Number of timed epochs.
        device: "cpu" or "cuda".
    """
    times = []
    value = torch.zeros(())
    for _ in range(UNTIMED + epochs):
        began = time.perf_counter()
        for batch in loader:
            value = step(batch)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return times[UNTIMED:], float(value)


def measure_loop(
    graphs: list[Data], uplifted: bool, loop: str, options: Namespace, device: str
) -> Record:
    """Measure one loop, and return its record."""
    gc.collect()  # frees the model and the CUDA graphs of the loop before
    if device == "cuda":
        # PyTorch keeps a cuBLAS workspace of 32 MB for each stream and thread that the
        # loop before has used.
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
    reset_peak(device)
    torch.manual_seed(0)
    model: nn.Module = Gine(options.channels, options.layers)
    subgraphs = gnnak.EgoNets(options.hops) if uplifted else None
    if subgraphs is not None:
        model = gnnak.uplift(model, subgraphs)
    model = model.to(device).train()
    loader: Any = DataLoader(graphs, options.batch_size, shuffle=True)  # type: ignore[arg-type]
    size = options.batch_size
    if loop == DDP:
        if device == "cuda":
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        model = nn.parallel.DistributedDataParallel(model)
        size //= distributed.get_world_size()
    if loop != PYG:
        loader = gnnak.GraphLoader(
            graphs, size, True, device=device, subgraphs=subgraphs
        )
    step: Any = plain_step(model, device)
    if loop in (STEP, BF16, DDP):
        optimizer = torch.optim.Adam(model.parameters())
        autocast = torch.bfloat16 if loop == BF16 else None
        step = gnnak.TrainingStep(model, loss, optimizer, autocast=autocast)
    in_thread = gnnak.loop.backward_in_calling_thread()
    with nullcontext() if loop == PYG else in_thread:
        times, last = seconds(loader, step, options.epochs, device)
    kind = "uplifted" if uplifted else "plain"
    record = {"model": kind, "loop": loop, "seconds": min(times), "loss": last}
    record["median"] = statistics.median(times)
    record["times"] = [round(each, 4) for each in times]
    return record | {"peak_mb": peak_megabytes(device), "device": device}


def measure(options: Namespace, device: str) -> Iterator[Record]:
    """Measure all loops, and yield one record for each of them."""
    store = load_dataset("zinc").store
    count = min(options.graphs, len(store))
    graphs = to_pyg(store.subset(slice(0, count)))
    first: dict[bool, float] = {}
    loops = LOOPS if device == "cuda" else LOOPS[:-1]
    if options.ddp:
        loops = (DDP,) if distributed.get_world_size() > 1 else (STEP, DDP)
    for uplifted in (True,) if options.uplifted else (False, True):
        for loop in loops:
            record = measure_loop(graphs, uplifted, loop, options, device)
            first.setdefault(uplifted, record["seconds"])
            record["ratio"] = record["seconds"] / first[uplifted]
            yield record


def positive(text: str) -> int:
    """Return a number of the command line, which must be at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def main() -> None:
    """Parse the command line, measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", type=positive, default=10_000)
    parser.add_argument("--epochs", type=positive, default=20)
    parser.add_argument("--batch-size", type=positive, default=128)
    parser.add_argument("--channels", type=positive, default=128)
    parser.add_argument("--layers", type=positive, default=6)
    parser.add_argument("--hops", type=positive, default=3)
    parser.add_argument("--uplifted", action="store_true", help="no plain model")
    parser.add_argument("--ddp", choices=("nccl", "gloo"), help="in torchrun only")
    parser.add_argument("--out", type=Path, help="file that records are appended to")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.ddp:
        if device == "cuda":
            rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(rank % torch.cuda.device_count())
        distributed.init_process_group(options.ddp)
    torch.set_float32_matmul_precision("high")
    settings = {k: v for k, v in vars(options).items() if k != "out"}
    about = {"kind": "own-loop", "environment": environment(device)}
    rows = []
    for record in measure(options, device):
        memory = f"{record['peak_mb'] or 0:.0f} MB"
        spent, ratio = f"{record['seconds']:.3f} s", f"{record['ratio']:.2f}"
        median = f"{record['median']:.3f} s"
        rows.append([record["model"], record["loop"], spent, median, ratio, memory])
        print(*rows[-1], sep="  ", flush=True)
        if options.out is not None:
            append_record(options.out, about | settings | record)
    if options.ddp:
        distributed.destroy_process_group()
    print(markdown(["model", "loop", "an epoch", "median", "ratio", "memory"], rows))


if __name__ == "__main__":
    main()

"""Train on mini-batches of one large graph: seeds per second and peak memory.

The graphs are generated and undirected. They have 10 directed edges per node, a power
law of degrees, and features in a memory-mapped file. `RootLoader` is measured with a
two-layer GCN, plain and uplifted. PyG's loaders are measured with the plain GCN, if the
compiled extensions that they need are installed. Run

    python -m benchmarks.large_graph [--nodes 100000 1000000 10000000] [--record]

It uses a GPU if there is one. The peak memory on a GPU is what training allocates, in
addition to the edges of the graph and the model. On a CPU, it is the growth of the
process, which includes the parts of the feature file that are read.
"""

import argparse
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader, ShaDowKHopSampler
from torch_geometric.nn import GCN

import gnnak
from benchmarks.markdown import markdown
from benchmarks.memory import PeakMemory
from benchmarks.own_loop import positive
from gnnak.device import growth_measured
from gnnak.training.records.results import (
    Record,
    append_record,
    environment,
    six_digits,
)

RESULTS = Path("results/large_graph.jsonl")
EDGES = 10
"""Number of directed edges per node."""
CHANNELS, CLASSES = 64, 16
NEIGHBORS = [10, 10]
"""Largest number of neighbours that are sampled in each hop."""
UNTIMED = 3
"""Number of steps before those that are timed."""


def power_law_edges(num_nodes: int, device: str) -> Tensor:
    """Return the edges of a random undirected graph, [2, 10 n].

    The expected degree of node i is proportional to 1 / sqrt(i + 1), so that degrees
    follow a power law with exponent 3; the largest is about 10 sqrt(n).
    """
    draw = torch.Generator(device).manual_seed(0)
    shape = (2, EDGES * num_nodes // 2)
    uniform = torch.rand(shape, generator=draw, device=device, dtype=torch.double)
    ends = (uniform.square_() * num_nodes).long()
    return torch.cat([ends, ends.flip(0)], dim=1)


def make_graph(num_nodes: int, folder: Path, device: str) -> Data:
    """Generate a graph, with its features in a memory-mapped file in `folder`."""
    file, shape = folder / f"{num_nodes}.npy", (num_nodes, CHANNELS)
    x = np.lib.format.open_memmap(file, "w+", np.float32, shape)
    rows = np.random.default_rng(0)
    for begin in range(0, num_nodes, 1 << 20):
        part = x[begin : begin + (1 << 20)]
        part[:] = rows.random(part.shape, np.float32)
    x.flush()
    x = np.load(file, mmap_mode="r")
    y = torch.arange(num_nodes) % CLASSES
    return Data(x=x, edge_index=power_law_edges(num_nodes, device), y=y)


def loss(output: Tensor, batch: Data) -> Tensor:
    """Return the cross entropy of the seeds."""
    size = batch.batch_size
    return nn.functional.cross_entropy(output[:size], batch.y[:size])


def shadow_loss(output: Tensor, batch: Data) -> Tensor:
    """Return the cross entropy of the seeds of a ShaDow batch."""
    return nn.functional.cross_entropy(output[batch.root_n_id], batch.y)


Loader = Callable[[Data, int, str], Iterable[Data]]


def root_loader(mode: Any, subgraphs: Any = None) -> Loader:
    """Return a function that builds a `RootLoader`."""

    def build(data: Data, batch_size: int, device: str) -> Iterable[Data]:
        return gnnak.RootLoader(
            data,
            batch_size=batch_size,
            shuffle=True,
            mode=mode,
            num_neighbors=NEIGHBORS,
            subgraphs=subgraphs,
            device=device,
        )

    return build


def pyg_data(data: Data) -> Data:
    """Return a graph as PyG's loaders take it: tensors on the CPU."""
    x = torch.from_numpy(np.asarray(data.x))
    return Data(x=x, edge_index=data.edge_index.cpu(), y=data.y)


def neighbor_loader(data: Data, batch_size: int, device: str) -> Iterable[Data]:
    """Build PyG's `NeighborLoader`; its batches are on the CPU."""
    options: Any = {"batch_size": batch_size, "shuffle": True, "num_workers": 8}
    return NeighborLoader(pyg_data(data), NEIGHBORS, **options)


def shadow_loader(data: Data, batch_size: int, device: str) -> Iterable[Data]:
    """Build PyG's `ShaDowKHopSampler`; its batches are on the CPU."""
    options: Any = {"batch_size": batch_size, "shuffle": True, "num_workers": 8}
    hops, most = len(NEIGHBORS), NEIGHBORS[0]
    return ShaDowKHopSampler(pyg_data(data), hops, most, **options)


CASES: dict[str, tuple[Loader, bool, tuple[str, ...]]] = {
    "scope, uplifted": (root_loader("scope", gnnak.EgoNets(1)), True, ()),
    "scope": (root_loader("scope"), False, ()),
    "shared": (root_loader("shared"), False, ()),
    "PyG's ShaDowKHopSampler": (shadow_loader, False, ("torch_sparse",)),
    "PyG's NeighborLoader": (neighbor_loader, False, ("pyg_lib", "torch_sparse")),
}
"""For each case: how the loader is built, whether the model is uplifted, and the
compiled extensions of which the loader needs one."""


def speed_and_memory(
    batches: Iterator[Data], step: Callable[[Data], Tensor], steps: int, device: str
) -> tuple[float, float]:
    """Train; return the seeds per second of the timed steps, and the peak memory."""

    def train(count: int) -> int:
        seeds = 0
        for batch in islice(batches, count):
            batch = (
                batch.to(device) if batch.edge_index.device.type != device else batch
            )
            seeds += getattr(batch, "batch_size", None) or batch.root_n_id.numel()
            step(batch)
        if device == "cuda":
            torch.cuda.synchronize()
        return seeds

    def timed() -> float:
        train(UNTIMED)
        begin = time.perf_counter()
        seeds = train(steps)
        return seeds / (time.perf_counter() - begin)

    if device == "cuda":
        with growth_measured(torch.device(device)) as grown:
            speed = timed()
        return speed, grown[0] / 2**20
    with PeakMemory() as peak:
        speed = timed()
    return speed, peak.megabytes


def measure(case: str, data: Data, options: Namespace, device: str) -> Record:
    """Measure one case on one graph, and return its record."""
    build, uplifted, extensions = CASES[case]
    found: Record = {"case": case, "nodes": data.num_nodes, "edges": data.num_edges}
    if extensions and not any(map(find_spec, extensions)):
        return found | {"reason": f"needs {' or '.join(extensions)}"}
    if device == "cuda":
        # Each case then allocates its own workspaces for matrix products.
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
    torch.manual_seed(0)
    model: nn.Module = GCN(CHANNELS, CHANNELS, 2, out_channels=CLASSES)
    if uplifted:
        model = gnnak.uplift(model, gnnak.EgoNets(1), reduce="mean")
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters())
    step = gnnak.TrainingStep(
        model,
        shadow_loss if build is shadow_loader else loss,
        optimizer,
        call=lambda net, batch: net(batch.x, batch.edge_index),
    )
    batches = iter(build(data, options.batch_size, device))
    speed, megabytes = speed_and_memory(batches, step, options.steps, device)
    found["seeds_per_second"] = six_digits(speed)
    return found | {"peak_mb": six_digits(megabytes)}


def main() -> None:
    """Measure all cases on all graphs, print a table, and record it with `--record`."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    sizes = [100_000, 1_000_000, 10_000_000]
    parser.add_argument("--nodes", type=positive, nargs="+", default=sizes)
    parser.add_argument("--steps", type=positive, default=50)
    parser.add_argument("--batch-size", type=positive, default=1024)
    parser.add_argument("--record", action="store_true", help=f"append to {RESULTS}")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    about = {"kind": "large-graph", "batch_size": options.batch_size}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for num_nodes in options.nodes:
            data = make_graph(num_nodes, Path(folder), device)
            for case in CASES:
                found = measure(case, data, options, device)
                cells = ["", "", found.get("reason", "")]
                if "reason" not in found:
                    speed, memory = found["seeds_per_second"], found["peak_mb"]
                    cells = [f"{speed:,.0f}", f"{memory:,.0f} MB", ""]
                rows.append([f"{num_nodes:,}", case, *cells])
                print(*rows[-1], sep="  ", flush=True)
                if options.record:
                    append_record(RESULTS, about | found | environment(device))
    head = ["nodes", "case", "seeds per second", "peak memory", "not measured"]
    print(markdown(head, rows))


if __name__ == "__main__":
    main()

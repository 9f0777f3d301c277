"""Measure what SubgraphDrop samples, and the time and memory that it saves.

For every sampling strategy and redundancy R (the least number of sampled subgraphs that
contain each node), training steps are compared with full steps, which use all
subgraphs. On a CPU, steps with and without SubgraphDrop alternate on the same batches;
a step is extraction, sampling, forward pass, backward pass and optimiser. On a GPU, the
time of a step is that of an epoch of `gnnak train`, including sampling, divided by the
number of batches. Run

    python -m benchmarks.subgraph_drop [--device cuda] [--record]
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.data import molecules, real_file, superpixels
from benchmarks.gpu_data import full_size
from benchmarks.memory import PeakMemory
from gnnak import PUBLISHED, EgoNets, LayerOptions, SubgraphDrop
from gnnak.graphs import GraphBatch, GraphStore
from gnnak.models import ModelOptions, Network, build_model
from gnnak.nn import describe
from gnnak.sampling import coverage
from gnnak.training.config.experiment import load_experiment
from gnnak.training.config.options import change
from gnnak.training.measure.bench import BenchOptions, bench
from gnnak.training.processes.machine import Machine
from gnnak.training.records.results import append_record, environment

RESULTS = Path("results/subgraph_drop.jsonl")
Figures = tuple[float, float]
TRAINED = 12
"""Number of batches in a measured training epoch on a GPU."""
STRATEGIES = ("random", "farthest", "min-set-cover")
RULES: dict[str, dict[str, Any]] = {
    "random": {"strategy": "random"},
    "farthest": {"strategy": "farthest"},
    "farthest-lowest": {"strategy": "farthest", "ties": "lowest"},
    "min-set-cover": {"strategy": "min-set-cover"},
}
"""The options of SubgraphDrop by the name that the records have as `strategy`."""


@dataclass(frozen=True)
class Case:
    """A data set, and the settings of GIN-AK+ on this data set.

    `make` returns a number of graphs, `file` is the data file in GNNAK_DATA, and
    `batch_size` is given by device type.
    """

    make: Callable[[int], GraphStore]
    experiment: str
    file: str
    num_hops: int
    num_layers: int
    layer: LayerOptions
    batch_size: dict[str, int]


CASES = {
    "ZINC molecules": Case(
        molecules, "zinc", "zinc12k.npz", 3, 6, PUBLISHED, {"cpu": 128, "cuda": 128}
    ),
    "superpixels": Case(
        superpixels,
        "cifar10",
        "cifar10-superpixels.npz",
        2,
        4,
        LayerOptions(mlp_layers=2, gate_centroid=True),
        {"cpu": 8, "cuda": 128},
    ),
}


def network(case: Case, store: GraphStore, drop: SubgraphDrop | None) -> Network:
    """Build GIN-AK+ with the settings of a case, with or without SubgraphDrop."""
    torch.manual_seed(0)
    options = ModelOptions(
        num_layers=case.num_layers,
        subgraphs=EgoNets(case.num_hops),
        mlp_layers=case.layer.mlp_layers,
        gate_centroid=case.layer.gate_centroid,
        **({} if drop is None else {"drop": drop}),
    )
    name = "gin-ak+" if drop is None else "gin-ak+-s"
    node, edge = describe(store.x), describe(store.edge_attr)
    assert node is not None
    return build_model(name, node, edge, 1, options)


class Clock:
    """Context manager: measure seconds and peak memory of the `with` block.

    It works on the CPU and on a GPU. After the block, the attributes `seconds` and
    `megabytes` have the result.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __enter__(self) -> "Clock":
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        else:
            self.peak = PeakMemory().__enter__()
        self.begin = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        self.seconds = time.perf_counter() - self.begin
        if self.device.type == "cuda":
            self.megabytes = torch.cuda.max_memory_allocated() / 1e6
        else:
            self.peak.__exit__()
            self.megabytes = self.peak.megabytes


def measure_step(
    net: Network, optimizer: torch.optim.Optimizer, batch: GraphBatch
) -> Clock:
    """Measure time and memory of one training step."""
    # A new tensor each time, so that no subgraphs are cached from an earlier step.
    fresh = batch.edge_index.clone()
    with Clock(batch.device) as clock:
        options = {"batch": batch.batch, "num_graphs": batch.num_graphs}
        out = net(batch.x, fresh, batch.edge_attr, **options)
        loss = nn.functional.l1_loss(out.flatten(), batch.y.float().flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return clock


def measure_steps(nets: list[Network], batches: list[GraphBatch]) -> list[Figures]:
    """Measure training steps of several networks, which alternate on each batch.

    Returns:
        For each network, the shortest time of a step in seconds and the largest peak
        memory in MB. The first step of each network, a warm-up, is not counted.
    """
    nets = [net.to(batches[0].device).train() for net in nets]
    optimizers = [torch.optim.Adam(net.parameters()) for net in nets]
    clocks: list[list[Clock]] = [[] for _ in nets]
    for batch in [batches[0], *batches]:
        for net, optimizer, taken in zip(nets, optimizers, clocks, strict=True):
            taken.append(measure_step(net, optimizer, batch))
    return [
        (min(c.seconds for c in taken[1:]), max(c.megabytes for c in taken[1:]))
        for taken in clocks
    ]


load = cache(full_size)


def measure_training(
    case: Case, drop: SubgraphDrop | None, accelerator: str = "gpu"
) -> Figures:
    """Return seconds and peak memory (MB) of a step in an ordinary training run.

    Args:
        case: Data set and settings of the model.
        drop: The SubgraphDrop to train with; None = train on all subgraphs.
        accelerator: Device to train on, as for `gnnak train --accelerator`.
    """
    options: dict[str, object] = {"model.name": "gin-ak+"}
    if drop is not None:
        options = {"model.name": "gin-ak+-s", "model.drop": asdict(drop)}
    config = change(load_experiment(case.experiment).config, options)
    size = config.train.batch_size
    asked = BenchOptions(graphs=TRAINED * size)
    machine = Machine(accelerator=accelerator)
    record = bench(config, load(case.experiment), machine, asked)
    steps = record["graphs_an_epoch"] / size
    return record["seconds"]["epoch"] / steps, record["peak_memory_mb"]


def measure_sampling(
    drop: SubgraphDrop, case: Case, batches: list[GraphBatch], device: torch.device
) -> dict[str, float]:
    """Measure how many roots SubgraphDrop samples, and how long that takes.

    Returns:
        The share of roots that are sampled, the mean number of sampled subgraphs that
        contain a node, and the seconds for the sampling plan (what SubgraphDrop
        precomputes per batch) and for drawing one sample.
    """
    kept = nodes = covered = 0
    plan_seconds, draw_seconds = [], []
    for batch in [batches[0], *batches]:
        subs = EgoNets(case.num_hops)(batch.edge_index, batch.num_nodes)
        with Clock(device) as clock:
            plan = drop.plan(subs, batch.edge_index)
        plan_seconds.append(clock.seconds)
        with Clock(device) as clock:
            few = drop(subs, batch.edge_index, plan=plan)
        draw_seconds.append(clock.seconds)
        kept += few.num_subgraphs
        nodes += batch.num_nodes
        covered += int(coverage(few, batch.num_nodes).sum())
    return {
        "share": kept / nodes,
        "coverage": covered / nodes,
        "plan_seconds": min(plan_seconds[1:]),
        "draw_seconds": min(draw_seconds[1:]),
    }


def measure(
    name: str, device: torch.device, repeats: int, strategies: Sequence[str]
) -> Iterator[dict]:
    """Yield a JSON record for each strategy and each redundancy R from 1 to 5.

    Args:
        name: Name of the case in `CASES`.
        device: Device to measure on.
        repeats: Number of batches.
        strategies: Names of sampling strategies in `RULES`.
    """
    case = CASES[name]
    size = case.batch_size[device.type]
    store = case.make(size * repeats)
    batches = [
        store[slice(first, first + size)].to(device)
        for first in range(0, size * repeats, size)
    ]
    trained = device.type == "cuda"
    full = measure_training(case, None) if trained else None
    for strategy in strategies:
        for min_coverage in range(1, 6):
            drop = SubgraphDrop(**RULES[strategy], min_coverage=min_coverage)
            if trained:
                few = measure_training(case, drop)
            else:
                nets = [network(case, store, None), network(case, store, drop)]
                full, few = measure_steps(nets, batches)
            assert full is not None
            yield {
                "trained": trained,
                "case": name,
                "real": real_file(case.file) is not None,
                "batch_size": size,
                "strategy": strategy,
                "min_coverage": min_coverage,
                "step_seconds": {"full": full[0], "drop": few[0]},
                "step_mb": {"full": full[1], "drop": few[1]},
            } | measure_sampling(drop, case, batches, device)


def shown(record: dict) -> str:
    """Format a JSON record as one line of text, with the ratios to a full step."""
    seconds, memory = record["step_seconds"], record["step_mb"]
    sampling = 1e3 * (record["plan_seconds"] + record["draw_seconds"])
    return (
        f"{record['strategy'] + ' R=' + str(record['min_coverage']):18}"
        f" sampled {record['share']:4.0%}  coverage {record['coverage']:5.2f}"
        f"  sampling {sampling:6.1f} ms"
        f"  step {1e3 * seconds['drop']:7.1f} of {1e3 * seconds['full']:7.1f} ms"
        f" ({seconds['drop'] / seconds['full']:4.2f})"
        f"  {memory['drop']:6.0f} of {memory['full']:6.0f} MB"
        f" ({memory['drop'] / memory['full']:4.2f})"
    )


def main() -> None:
    """Measure all cases; print one line per record and, with --record, store them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    names = list(RULES)
    parser.add_argument("--strategy", nargs="*", default=names, choices=names)
    parser.add_argument("--repeats", type=int, default=3, help="batches per setting")
    parser.add_argument("--record", nargs="?", const=RESULTS, type=Path)
    options = parser.parse_args()
    device = torch.device(options.device)
    for name in CASES:
        print(f"{name}, {options.device}")
        for record in measure(name, device, options.repeats, options.strategy):
            print(shown(record), flush=True)
            if options.record:
                append_record(options.record, record | environment(device))


if __name__ == "__main__":
    main()

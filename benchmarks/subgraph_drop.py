"""Measure what SubgraphDrop samples, and the time and memory that it saves.

Every sampling strategy and redundancy R (the least number of sampled subgraphs that
contain each node) is compared with full steps, which use all subgraphs. On a CPU, steps
with and without SubgraphDrop alternate on the same batches; a step is extraction,
sampling, forward pass, backward pass and optimiser. On a GPU, a step is an epoch of
`gnnak train`, including sampling, divided by its number of batches. Run

    python -m benchmarks.subgraph_drop [--device cuda] [--record]
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import nn

from benchmarks.data import molecules, real_file, superpixels
from benchmarks.gpu_data import full_size
from gnnak import PUBLISHED, EgoNets, LayerOptions, SubgraphDrop
from gnnak.graphs import GraphBatch, GraphStore
from gnnak.memory import PeakMemory
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
"""Number of batches of a training epoch on a GPU."""
STRATEGIES = ("random", "farthest", "min-set-cover")


@dataclass(frozen=True)
class Case:
    """A data set and the settings of GIN-AK+ on it."""

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
    """Context that measures seconds and peak memory, on the CPU or on a GPU."""

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
    """Measure one training step."""
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
    """Return best seconds and largest peak memory per network; networks alternate."""
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
    """Return seconds and peak memory of a step in an ordinary training run."""
    options: dict[str, object] = {"model.name": "gin-ak+"}
    if drop is not None:
        options = {
            "model.name": "gin-ak+-s",
            "model.drop.strategy": drop.strategy,
            "model.drop.min_coverage": drop.min_coverage,
        }
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
    """Return share of sampled roots, mean coverage, and seconds of plan and sample."""
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
    """Yield a record for every strategy and R, each compared with a full step."""
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
            drop = SubgraphDrop(strategy, min_coverage)
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
    """Format a record as one line, with the ratios to a full step."""
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
    """Measure all cases; print a line each and, with --record, store them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--strategy", nargs="*", default=STRATEGIES, choices=STRATEGIES)
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

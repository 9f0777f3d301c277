"""SubgraphDrop: what is kept, what sampling costs and what a training step saves.

One run measures full mode and every strategy and R in turn, on the same batches, with
extraction, sampling, forward, backward and optimiser inside the step. Run

    python -m benchmarks.subgraph_drop [--device cuda] [--record]
"""

import argparse
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from benchmarks.data import molecules, real_file, superpixels
from benchmarks.memory import PeakMemory
from gnnak import PUBLISHED, Departures, EgoNets, SubgraphDrop
from gnnak.graphs import GraphBatch, GraphStore
from gnnak.models import ModelOptions, Network, build_model
from gnnak.nn import describe
from gnnak.sampling import coverage
from gnnak.training.results import append_record, environment

RESULTS = Path("results/subgraph_drop.jsonl")
STRATEGIES = ("random", "farthest", "min-set-cover")


@dataclass(frozen=True)
class Case:
    """A data set and the settings of its GIN-AK+."""

    make: Callable[[int], GraphStore]
    file: str
    num_hops: int
    num_layers: int
    departures: Departures
    batch_size: dict[str, int]


CASES = {
    "ZINC molecules": Case(
        molecules, "zinc12k.npz", 3, 6, PUBLISHED, {"cpu": 128, "cuda": 128}
    ),
    "superpixels": Case(
        superpixels,
        "cifar10-superpixels.npz",
        2,
        4,
        Departures(mlp_layers=2, gate_centroid=True),
        {"cpu": 8, "cuda": 128},
    ),
}


def network(case: Case, store: GraphStore, drop: SubgraphDrop | None) -> Network:
    """GIN-AK+ with the case's settings, with or without SubgraphDrop."""
    torch.manual_seed(0)
    options = ModelOptions(
        num_layers=case.num_layers,
        extractor=EgoNets(case.num_hops),
        departures=case.departures,
        **({} if drop is None else {"drop": drop}),
    )
    name = "gin-ak+" if drop is None else "gin-ak+-s"
    node, edge = describe(store.x), describe(store.edge_attr)
    assert node is not None
    return build_model(name, node, edge, 1, options)


class Clock:
    """Seconds and peak memory of a stretch of code, on the CPU or on a GPU."""

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


def measure_steps(
    net: Network, batches: list[GraphBatch], device: torch.device
) -> tuple[float, float]:
    """Best seconds and largest peak memory of a training step over the batches."""
    net = net.to(device).train()
    optimizer = torch.optim.Adam(net.parameters())
    seconds, megabytes = [], []
    for batch in [batches[0], *batches]:
        # A new tensor each time: nothing may be kept from an earlier step.
        fresh = batch.to(device).edge_index.clone()
        with Clock(device) as clock:
            options = {"batch": batch.batch, "num_graphs": batch.num_graphs}
            out = net(batch.x, fresh, batch.edge_attr, **options)
            loss = nn.functional.l1_loss(out.flatten(), batch.y.float().flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        seconds.append(clock.seconds)
        megabytes.append(clock.megabytes)
    return min(seconds[1:]), max(megabytes[1:])


def measure_sampling(
    drop: SubgraphDrop, case: Case, batches: list[GraphBatch], device: torch.device
) -> dict[str, float]:
    """Share of roots kept, mean coverage, and the seconds of plan and draw."""
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


def measure(name: str, device: torch.device, repeats: int) -> list[dict]:
    """Full mode first, then every strategy and R."""
    case = CASES[name]
    size = case.batch_size[device.type]
    store = case.make(size * repeats)
    batches = [
        store[slice(first, first + size)].to(device)
        for first in range(0, size * repeats, size)
    ]
    drops = [None] + [SubgraphDrop(s, r) for s in STRATEGIES for r in range(1, 6)]
    records = []
    for drop in drops:
        seconds, megabytes = measure_steps(network(case, store, drop), batches, device)
        record = {
            "case": name,
            "real": real_file(case.file) is not None,
            "batch_size": size,
            "strategy": None if drop is None else drop.strategy,
            "min_coverage": None if drop is None else drop.min_coverage,
            "step_seconds": seconds,
            "step_mb": megabytes,
        }
        if drop is not None:
            record |= measure_sampling(drop, case, batches, device)
        records.append(record)
        print(shown(record, records[0]), flush=True)
    return records


def shown(record: dict, full: dict) -> str:
    """One line, with the ratios to full mode."""
    time_ratio = record["step_seconds"] / full["step_seconds"]
    memory_ratio = record["step_mb"] / full["step_mb"]
    name = f"{record['strategy']} R={record['min_coverage']}"
    line = f"{'full' if record is full else name:20}"
    if record is not full:
        sampling = 1e3 * (record["plan_seconds"] + record["draw_seconds"])
        line += f" kept {record['share']:4.0%}  covered {record['coverage']:5.2f}"
        line += f"  sampling {sampling:6.1f} ms"
    line += f"  step {1e3 * record['step_seconds']:7.1f} ms ({time_ratio:4.2f})"
    return line + f"  {record['step_mb']:6.0f} MB ({memory_ratio:4.2f})"


def main() -> None:
    """Measure all cases; print a line each and, with --record, write them down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--repeats", type=int, default=3, help="batches a setting")
    parser.add_argument("--record", nargs="?", const=RESULTS, type=Path)
    options = parser.parse_args()
    device = torch.device(options.device)
    for name in CASES:
        print(f"{name}, {options.device}")
        for record in measure(name, device, options.repeats):
            if options.record:
                append_record(options.record, record | environment(device))


if __name__ == "__main__":
    main()

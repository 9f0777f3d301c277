"""Compare the extraction of k-hop egonets with PyG's `RootedEgoNets`.

The time is the best of a few repeats; the two libraries alternate. The CPU time, which
depends less on other programs, sums the time of all threads. The memory is the growth
of the peak memory of a new process during one extraction. Run `make bench`, or

    python -m benchmarks.extraction [--record]
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from torch_geometric.data import Data
from torch_geometric.transforms import RootedEgoNets

from benchmarks.data import computers, molecules, real_file, sparse_graph
from benchmarks.memory import PeakMemory
from gnnak.graphs import GraphBatch, GraphStore, to_pyg
from gnnak.subgraphs import EgoNets
from gnnak.training.records.results import append_record, environment

RESULTS = Path("results/extraction.jsonl")
REPEATS = 3


CASES: dict[str, tuple[Callable[[], GraphStore], EgoNets, bool]] = {
    "1 000 molecules, k=3": (lambda: molecules(1000), EgoNets(3), True),
    "10 000 molecules, k=3": (lambda: molecules(10_000), EgoNets(3), True),
    "sparse graph, 4 000 nodes, k=1": (lambda: sparse_graph(4_000), EgoNets(1), True),
    "sparse graph, 100 000 nodes, k=1": (
        lambda: sparse_graph(100_000),
        EgoNets(1),
        False,
    ),
}
"""The cases, by title. Each is a function that makes the graphs, the extractor, and
whether PyG's transform extracts the same and has sufficient memory."""
if real_file("node-computers.npz"):
    CASES |= {
        "Amazon Computers, k=1": (computers, EgoNets(1), False),
        "Amazon Computers, k=2, at most 20 nodes per hop": (
            computers,
            EgoNets(2, max_neighbors=20),
            False,
        ),
    }


def with_gnnak(batch: GraphBatch, extractor: EgoNets) -> int:
    """Extract all egonets of the batch in one call; return the number of node copies.

    A node copy is a node as it occurs in one egonet.
    """
    return extractor(batch.edge_index, batch.num_nodes).num_copies


def with_pyg(graphs: list[Data], num_hops: int) -> int:
    """Apply PyG's transform to each graph; return the total number of node copies."""
    transform = RootedEgoNets(num_hops)
    rooted = [transform(data) for data in graphs]
    return sum(data.n_id.numel() for data in rooted)


def contestants(case: str) -> dict[str, Callable[[], int]]:
    """Return functions that extract the egonets of a case, by library.

    Args:
        case: Title of the case.

    Returns:
        The functions "gnnak" and "pyg", or only "gnnak" if PyG needs too much memory.
    """
    make, extractor, pyg_can = CASES[case]
    store = make()
    batch = store.union()
    both: dict[str, Callable[[], int]] = {"gnnak": lambda: with_gnnak(batch, extractor)}
    if pyg_can:
        graphs = to_pyg(store)
        for graph, size in zip(graphs, store.num_nodes.tolist(), strict=True):
            graph.num_nodes = size
        both["pyg"] = lambda: with_pyg(graphs, extractor.num_hops)
    return both


def seconds(case: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return the best time and CPU time of each library on a case, in seconds.

    Runs of the two libraries alternate.
    """
    both = contestants(case)
    counts = {name: extract() for name, extract in both.items()}
    if len(set(counts.values())) != 1:
        raise SystemExit(f"{case}: the numbers of copies differ: {counts}")
    best, best_cpu = (dict.fromkeys(both, float("inf")) for _ in range(2))
    for _ in range(REPEATS):
        for name, extract in both.items():
            begin, begin_cpu = time.perf_counter(), time.process_time()
            extract()
            best[name] = min(best[name], time.perf_counter() - begin)
            best_cpu[name] = min(best_cpu[name], time.process_time() - begin_cpu)
    return best, best_cpu


def peak_megabytes(case: str, name: str) -> float:
    """Return the peak memory of one extraction, measured in a new process, in MB.

    Args:
        case: Title of the case.
        name: The library, "gnnak" or "pyg".
    """
    command = [sys.executable, "-m", "benchmarks.extraction", "--peak", case, name]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(told.stdout)


def measure_peak(case: str, name: str) -> float:
    """Return the peak memory of one extraction, measured in this process, in MB.

    Args:
        case: Title of the case.
        name: The library, "gnnak" or "pyg".
    """
    extract = contestants(case)[name]
    with PeakMemory() as peak:
        extract()
    return peak.megabytes


def main() -> None:
    """Measure all cases; print one line per case and, with --record, store records."""
    warnings.filterwarnings("ignore", message="Sparse")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help=f"append to {RESULTS}")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(json.dumps(measure_peak(*options.peak)))
        return
    for case in CASES:
        taken, cpu = seconds(case)
        peak = {name: peak_megabytes(case, name) for name in taken}
        ours, theirs = taken["gnnak"], taken.get("pyg")
        ratio = "too large for PyG"
        if theirs is not None:
            ratio = f"{theirs / ours:.0f} times faster"
        print(
            f"{case:48} {ours:8.3f} s (CPU {cpu['gnnak']:.3f} s) "
            f"{peak['gnnak']:6.0f} MB  {ratio}"
            + ("" if theirs is None else f" ({theirs:.3f} s, {peak['pyg']:.0f} MB)")
        )
        if options.record:
            told = {"case": case, "seconds": taken, "cpu_seconds": cpu, "peak_mb": peak}
            append_record(RESULTS, told | environment())


if __name__ == "__main__":
    main()

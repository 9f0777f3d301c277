"""Time the Weisfeiler-Leman (WL) tests, and count the pairs they do not distinguish.

The time is the best of a few repeats; the goals are for two threads (`--threads`).
Pairs are counted on all connected graphs with up to 7 nodes. Run

    python -m benchmarks.wl [--threads 2] [--small] [--record]
"""

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import networkx as nx
import torch

from gnnak.graphs.named import Graph
from gnnak.training.records.results import Record, append_record, environment
from gnnak.wl import partition
from gnnak.wl.bounds import Contender
from gnnak.wl.families import cfi_pair, connected_graphs, pairs_apart

RESULTS = Path("results/wl.jsonl")
REPEATS = 2


def random_graphs(count: int, size: int, density: float = 0.4) -> list[Graph]:
    """Return random graphs in which each edge exists with probability `density`."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for table in torch.rand(count, size, size, generator=generator):
        once = torch.triu(table < density, diagonal=1).nonzero().T
        found.append((torch.cat([once, once.flip(0)], dim=1), size))
    return found


def one_graph(size: int) -> list[Graph]:
    """Return a list with one random 4-regular graph."""
    ends = torch.tensor(list(nx.random_regular_graph(4, size, seed=0).edges)).T
    return [(torch.cat([ends, ends.flip(0)], dim=1), size)]


def petersen() -> list[Graph]:
    """Return the Cai-Fürer-Immerman (CFI) pair of the Petersen graph, of 100 nodes."""
    return list(cfi_pair(nx.petersen_graph()))


CASES: dict[str, tuple[Callable[[], list[Graph]], Contender, float | None]] = {
    "10 000 graphs of 10 nodes": (
        lambda: random_graphs(10_000, 10),
        Contender("1-wl"),
        2.0,
    ),
    "10 000 graphs of 10 nodes ": (
        lambda: random_graphs(10_000, 10),
        Contender("subgraph-1-wl*", {"num_hops": 1}),
        30.0,
    ),
    "one graph of 64 nodes": (lambda: one_graph(64), Contender("2-fwl"), 2.0),
    "one graph of 64 nodes ": (lambda: one_graph(64), Contender("3-wl"), None),
    "one graph of 30 nodes": (lambda: one_graph(30), Contender("3-fwl"), None),
    "CFI pair of 100 nodes": (
        petersen,
        Contender("subgraph-1-wl", {"num_hops": 4}),
        None,
    ),
}
"""The cases, by title. Each is a function that makes the graphs, the test, and the goal
in seconds (None = no goal). Trailing spaces keep titles distinct."""

_PLUS = {"d2c": True, "centroid": True, "context": True}

SMALL = (
    *(Contender(name) for name in ("1-wl", "2-wl", "3-wl", "2-fwl", "3-fwl")),
    *(Contender("subgraph-1-wl*", {"num_hops": k}) for k in (1, 2, 3)),
    *(Contender("subgraph-1-wl*", {"num_hops": k, "root_mark": True}) for k in (2, 3)),
    *(Contender("subgraph-1-wl*", {"num_hops": k, **_PLUS}) for k in (1, 2, 3)),
    *(Contender("subgraph-1-wl", {"num_hops": k, "hash": "3-wl"}) for k in (1, 2)),
    *(Contender("subgraph-1-wl", {"num_hops": k}) for k in (1, 2, 3)),
)
"""The tests that are run on all connected graphs with up to 7 nodes."""


def speed() -> Iterator[Record]:
    """Yield a JSON record for each case, with the best time of a few repeats."""
    for name, (build, contender, goal) in CASES.items():
        graphs = build()
        times = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            partition(contender.test, graphs, **contender.options)
            times.append(time.perf_counter() - start)
        yield {
            "kind": "speed",
            "case": f"{name.strip()}, {contender.label}",
            "graphs": name.strip(),
            "test": contender.label,
            "seconds": min(times),
            "goal": goal,
        }


def small() -> Iterator[Record]:
    """Yield a record for each test: how many pairs of graphs it does not distinguish.

    The graphs are all connected graphs with up to 7 nodes.
    """
    groups = [connected_graphs(n) for n in range(1, 8)]
    graphs = [graph for group in groups for graph in group]
    for contender in SMALL:
        classes = partition(contender.test, graphs, **contender.options)
        total, apart = pairs_apart([graphs], classes)
        by_size, start = [], 0
        for group in groups:
            own = classes[start : start + len(group)]
            start += len(group)
            pairs, told = pairs_apart([group], own)
            by_size.append(pairs - told)
        yield {
            "kind": "small",
            "case": contender.label,
            "graphs": len(graphs),
            "pairs": total,
            "fails": total - apart,
            "fails_by_size": by_size,
        }


def main() -> None:
    """Print the times and the counts, or the counts only; store them with --record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--small", action="store_true", help="count pairs only, no times"
    )
    parser.add_argument("--record", action="store_true", help=f"append to {RESULTS}")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for record in chain(() if arguments.small else speed(), small()):
        print({name: value for name, value in record.items() if name != "kind"})
        if arguments.record:
            append_record(RESULTS, record | environment())


if __name__ == "__main__":
    main()

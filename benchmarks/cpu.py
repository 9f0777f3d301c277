"""Measure what a training epoch costs on one CPU core.

The networks have the settings that `gnnak train` uses for own data: three layers of 64
channels, batches of 32 graphs. A step is extraction of the subgraphs, forward pass,
backward pass and optimiser. The time is the processor time of one thread, which does
not grow if other programs use the machine, too. Run

    python -m benchmarks.cpu [--record]
"""

import argparse
import time
from pathlib import Path

import torch

from benchmarks.data import molecules
from gnnak import EgoNets
from gnnak.graphs import GraphStore
from gnnak.models import ModelOptions, Network, build_model
from gnnak.nn import describe
from gnnak.training.config.experiment import DEFAULTS
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.records.results import append_record, environment, six_digits

RESULTS = Path("results/cpu.jsonl")
STEPS = 6
CASES = (
    ("gin", 3),
    ("gin-ak", 3),
    ("gin-ak+", 1),
    ("gin-ak+", 2),
    ("gin-ak+", 3),
    ("gin-ak+-s", 3),
    ("dss-gin", 3),
    ("sswl+-gin", None),
)
"""Name of the network and radius of the egonets; None = the default subgraphs."""


def network(name: str, num_hops: int | None, store: GraphStore) -> Network:
    """Build a network with the settings for own data."""
    torch.manual_seed(0)
    options: ModelOptions = change(RunConfig(), DEFAULTS).model
    if num_hops is not None:
        options = options.changed(subgraphs=EgoNets(num_hops))
    node, edge = describe(store.x), describe(store.edge_attr)
    assert node is not None
    return build_model(name, node, edge, 1, options)


def milliseconds(net: Network, store: GraphStore, batch_size: int) -> float:
    """Return the processor time per graph of a training step, after a warm-up."""
    optimizer = torch.optim.Adam(net.parameters())
    net.train()
    taken = 0.0
    for number in range(STEPS + 1):
        batch = store[torch.arange(batch_size) + number * batch_size]
        begin = time.process_time()
        loss = (net(batch).flatten() - batch.y.flatten()).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        taken += time.process_time() - begin if number else 0.0
    return 1000 * taken / (STEPS * batch_size)


def main() -> None:
    """Measure all cases, print them, and record them with `--record`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--record", action="store_true")
    record = parser.parse_args().record
    torch.set_num_threads(1)
    batch_size = DEFAULTS["train.batch_size"]
    store = molecules((STEPS + 1) * batch_size)
    for name, num_hops in CASES:
        net = network(name, num_hops, store)
        cost = six_digits(milliseconds(net, store, batch_size))
        weights = sum(one.numel() for one in net.parameters())
        case = f"{name}, k = {num_hops}" if num_hops and name != "gin" else name
        print(f"{case:20} {cost:7.2f} ms per molecule, {weights} weights")
        found = {"kind": "cpu", "case": case, "milliseconds": cost, "weights": weights}
        if record:
            append_record(RESULTS, found | environment())


if __name__ == "__main__":
    main()

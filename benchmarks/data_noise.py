"""Measure how much test scores depend on which test graphs are generated.

The graphs of PATTERN and of the graph properties are generated. The paper's authors had
other graphs than we have, even if the generators are the same. This command scores
trained networks on several freshly generated test sets, each as large as the test set
of the data set, and records the standard deviation of the scores. Run

    python -m benchmarks.data_noise runs/NAME/best.ckpt [...] [--sets 5] [--record]

The networks must be trained on `pattern` or on `properties`.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import torch

import gnnak
from benchmarks.markdown import markdown
from benchmarks.own_loop import positive
from gnnak.datasets import find_entry, load_dataset, loaders, mixture
from gnnak.datasets.assemble import build
from gnnak.errors import OptionError
from gnnak.graphs import GraphFile, GraphStore
from gnnak.graphs.store import with_reverse_edges
from gnnak.nn.features import Categorical
from gnnak.training.config.run_config import DataConfig
from gnnak.training.metrics import make_metric
from gnnak.training.predictions import raw_outputs
from gnnak.training.records.results import (
    Record,
    append_record,
    environment,
    six_digits,
)

RESULTS = Path("results/data_noise.jsonl")
BATCH_SIZE = 256
FRESH = 1000
"""Added to the seed of a data set, gives the seed of its first fresh test set."""


def fresh_pattern(data: DataConfig, sets: int) -> list[GraphStore]:
    """Generate test sets of PATTERN, with the patterns of the training graphs."""
    size = loaders.PARTS[2]
    # The patterns depend on the seed only, the graphs also on the number of graphs.
    file = loaders.pattern_graphs(data.seed, (0, 0, sets * size))
    info, colors = find_entry("pattern").info, Categorical((2,) * loaders.COLORS)
    store = with_reverse_edges(file.store)
    store = build(info, GraphFile(store), "generated", colors).store
    return [store.subset(slice(i * size, (i + 1) * size)) for i in range(sets)]


def fresh_properties(data: DataConfig, sets: int) -> list[GraphStore]:
    """Generate test sets of the graph properties, with targets as in training."""
    dataset = load_dataset("properties", target=data.target, seed=data.seed)
    name = data.target
    assert dataset.split is not None
    assert dataset.store.y is not None
    training = dataset.store.subset((dataset.split == 0).nonzero().flatten())
    largest = mixture.graph_property(training, name).max()  # type: ignore[arg-type]
    found = []
    for number in range(sets):
        file = mixture.property_graphs(data.seed + FRESH + number)
        test = with_reverse_edges(file.store).subset(file.indices("test"))
        values = mixture.graph_property(test, name)  # type: ignore[arg-type]
        found.append(replace(test, y=(values / largest).float()))
    return found


MAKERS = {"pattern": fresh_pattern, "properties": fresh_properties}
"""Functions that generate test sets, by data set."""


def measure(path: Path, sets: int, device: str) -> Record:
    """Score a trained network on fresh test sets; return a record."""
    model = gnnak.load(path).to(device)
    data = model.config.data
    if data.name not in MAKERS:
        names = " or ".join(MAKERS)
        told = f"{path} was trained on {data.name}"
        raise OptionError(f"{told}; give a network trained on {names}.")
    scores = []
    for store in MAKERS[data.name](data, sets):
        metric = make_metric(model.info)
        outputs = raw_outputs(model, store, BATCH_SIZE).float()
        assert store.y is not None
        y = store.y if store.node_targets else store.y.view(outputs.shape)
        metric.update(outputs, y)
        scores.append(six_digits(float(metric.compute())))
    return {
        "kind": "data-noise",
        "experiment": data.name,
        "target": data.target,
        "model": model.config.model.name,
        "scores": scores,
        "mean": six_digits(fmean(scores)),
        "deviation": six_digits(stdev(scores)),
    }


def main() -> None:
    """Measure all networks of the command line, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("networks", type=Path, nargs="+")
    parser.add_argument("--sets", type=positive, default=5)
    parser.add_argument("--record", action="store_true", help=f"append to {RESULTS}")
    options = parser.parse_args()
    if options.sets < 2:
        parser.error("--sets must be at least 2: one score has no deviation")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = []
    for path in options.networks:
        found = measure(path, options.sets, device)
        name = " ".join(filter(None, (found["experiment"], found["target"])))
        rows.append(
            [name, found["model"], f"{found['mean']:.5f}", f"{found['deviation']:.5f}"]
        )
        print(*rows[-1], sep="  ", flush=True)
        if options.record:
            append_record(RESULTS, found | environment(device))
    print(markdown(["data set", "network", "mean score", "deviation"], rows))


if __name__ == "__main__":
    main()

"""How cost grows: with the nodes of a graph, with hops, channels and coverage."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import networkx as nx
import torch

from gnnak.datasets.record import Dataset, DatasetInfo
from gnnak.errors import OptionError
from gnnak.graphs import from_networkx
from gnnak.models.factory import parse_name
from gnnak.nn.features import Categorical
from gnnak.subgraphs.egonets import EgoNets
from gnnak.training.config.options import change
from gnnak.training.config.run_config import DataConfig, RunConfig
from gnnak.training.measure.bench import BenchOptions, bench
from gnnak.training.measure.stopwatch import Tell
from gnnak.training.processes.machine import Machine
from gnnak.training.records.results import Record

Growing = Literal["nodes", "hops", "channels", "coverage"]
RANGES: dict[Growing, tuple[int, ...]] = {
    "nodes": (16, 32, 64, 128, 256),
    "hops": (1, 2, 3, 4),
    "channels": (32, 64, 128, 256),
    "coverage": (1, 2, 3, 4, 5),
}
"""What grows, and the values it takes."""
SETTINGS: dict[Growing, str] = {
    "hops": "model.subgraphs.num_hops",
    "channels": "model.channels",
    "coverage": "model.drop.min_coverage",
}
"""The option of a run that each of them is; nodes are a matter of the graphs."""
DEGREE, DRAWN, GRAPHS = 4, 32, 512
"""Neighbours of a node, different graphs, and graphs of a generated data set."""


def grow(
    what: Growing,
    config: RunConfig,
    load: Callable[[], Dataset],
    machine: Machine | None = None,
    options: BenchOptions | None = None,
    tell: Tell | None = None,
    values: Sequence[int] = (),
) -> Iterator[Record]:
    """Measure one run for every value of a range.

    Args:
        what: What grows.
        config: The run; one of its options is each value in turn.
        load: Gives its graphs. Not called where nodes grow: those are random regular
            graphs.
        machine: Device and memory.
        options: How much is measured.
        tell: Told what is going on.
        values: The range; that of `RANGES` if not given.

    Yields:
        The record of each value, of kind "growth".
    """
    check_growing(what, config)
    dataset = None if what == "nodes" else load()
    for value in values or RANGES[what]:
        graphs = dataset or regular_graphs(value)
        changed = _changed(config, what, value)
        told = tell and _prefixed(tell, f"{what} {value}, ")
        record = bench(changed, graphs, machine, options, told)
        yield record | {"kind": "growth", "what": what, "value": value}


def _changed(config: RunConfig, what: Growing, value: int) -> RunConfig:
    if what != "nodes":
        return change(config, {SETTINGS[what]: value})
    data = DataConfig(name=f"regular-{value}")
    return change(replace(config, data=data), {"train.loss": None})


def _prefixed(tell: Tell, start: str) -> Tell:
    return lambda words: tell(start + words)


def check_growing(what: Growing, config: RunConfig) -> None:
    """Raise `OptionError` if the model of the run does not know of what is to grow."""
    name, extractor = config.model.name, config.model.extractor
    form = parse_name(name)
    if what == "hops" and not (form.uplifted and isinstance(extractor, EgoNets)):
        raise OptionError(
            f"{name} with {extractor} has no hops to vary; use a model with the suffix "
            "-ak or -ak+, and model.subgraphs.kind=egonets."
        )
    if what == "coverage" and not form.sampled:
        raise OptionError(
            f"{name} has no coverage to vary; use a model with the suffix -s."
        )


def regular_graphs(num_nodes: int, num_graphs: int = GRAPHS) -> Dataset:
    """Random 4-regular graphs of one size, to train on; a few, again and again.

    Args:
        num_nodes: Nodes of each graph.
        num_graphs: How many graphs.

    >>> regular_graphs(16, 8).store.num_nodes.tolist()
    [16, 16, 16, 16, 16, 16, 16, 16]
    """
    drawn = [
        nx.random_regular_graph(DEGREE, num_nodes, seed=seed)
        for seed in range(min(DRAWN, num_graphs))
    ]
    store = from_networkx(drawn).subset(torch.arange(num_graphs) % len(drawn))
    x = torch.zeros(num_graphs * num_nodes, 1, dtype=torch.long)
    store = replace(store, x=x, y=torch.arange(num_graphs) / num_graphs)
    info = DatasetInfo(
        name=f"regular-{num_nodes}",
        title=f"4-regular graphs, {num_nodes} nodes",
        task="regression",
        metric="mae",
        num_outputs=1,
        node_features=Categorical((1,)),
        edge_features=None,
        source="generated",
    )
    # One graph each suffices for validation and test.
    split = torch.zeros(num_graphs, dtype=torch.long)
    split[-2:] = torch.tensor([1, 2])
    return Dataset(info, store, split)

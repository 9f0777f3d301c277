"""Benchmark how the cost of training grows.

One quantity is varied: nodes per graph, hops of the rooted subgraphs, channels, or the
coverage of SubgraphDrop (the least number of sampled subgraphs that contain each node).
"""

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
from gnnak.training.measure.meters import Notify
from gnnak.training.processes.machine import Machine
from gnnak.training.records.results import Record

Growing = Literal["nodes", "hops", "channels", "coverage"]
"""The quantity that a benchmark varies: nodes per graph, hops (radius) of the rooted
subgraphs, channels of the network, or `min_coverage` of SubgraphDrop."""
RANGES: dict[Growing, tuple[int, ...]] = {
    "nodes": (16, 32, 64, 128, 256),
    "hops": (1, 2, 3, 4),
    "channels": (32, 64, 128, 256),
    "coverage": (1, 2, 3, 4, 5),
}
"""The values that `grow` benchmarks by default, for each quantity."""
SETTINGS: dict[Growing, str] = {
    "hops": "model.subgraphs.num_hops",
    "channels": "model.channels",
    "coverage": "model.drop.min_coverage",
}
"""The config option that sets each quantity. The quantity `nodes` has no option: for
each number of nodes, `regular_graphs` generates a data set."""
DEGREE, DISTINCT, GRAPHS = 4, 32, 512
"""Sizes in `regular_graphs`: neighbours of each node, largest number of different
graphs, and default number of graphs."""


def grow(
    what: Growing,
    config: RunConfig,
    load: Callable[[], Dataset],
    machine: Machine | None = None,
    options: BenchOptions | None = None,
    notify: Notify | None = None,
    values: Sequence[int] = (),
) -> Iterator[Record]:
    """Benchmark a run for several values of one quantity, such as the channels.

    Yields one record of kind "growth" per value. `load` is not called for "nodes":
    random regular graphs are generated.
    """
    check_growing(what, config)
    dataset = None if what == "nodes" else load()
    for value in values or RANGES[what]:
        graphs = dataset or regular_graphs(value)
        changed = _changed(config, what, value)
        prefixed = notify and _prefixed(notify, f"{what} {value}, ")
        record = bench(changed, graphs, machine, options, prefixed)
        yield record | {"kind": "growth", "what": what, "value": value}


def _changed(config: RunConfig, what: Growing, value: int) -> RunConfig:
    if what != "nodes":
        return change(config, {SETTINGS[what]: value})
    data = DataConfig(name=f"regular-{value}")
    return change(replace(config, data=data), {"train.loss": None})


def _prefixed(notify: Notify, start: str) -> Notify:
    return lambda text: notify(start + text)


def check_growing(what: Growing, config: RunConfig) -> None:
    """Raise `OptionError` if the model of a run does not depend on `what`."""
    name = config.model.name
    form = parse_name(name)
    extractor = config.model.extractor_for(form.kind)
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
    """Generate random 4-regular graphs of one size; beyond 32 graphs, they repeat.

    >>> regular_graphs(16, 8).store.num_nodes.tolist()
    [16, 16, 16, 16, 16, 16, 16, 16]
    """
    distinct = [
        nx.random_regular_graph(DEGREE, num_nodes, seed=seed)
        for seed in range(min(DISTINCT, num_graphs))
    ]
    store = from_networkx(distinct).subset(torch.arange(num_graphs) % len(distinct))
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
    # The last two graphs are for validation and test, all others for training.
    split = torch.zeros(num_graphs, dtype=torch.long)
    split[-2:] = torch.tensor([1, 2])
    return Dataset(info, store, split)

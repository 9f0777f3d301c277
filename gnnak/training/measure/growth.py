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

    Args:
        what: The quantity to vary.
        config: The options of the run; the option that sets `what` is replaced.
        load: Loads the data set. Not called if `what` is "nodes": then random regular
            graphs are generated.
        machine: The device and how to save memory; None = the first GPU, or the CPU if
            there is no GPU.
        options: Options of each benchmark; None = the defaults.
        notify: Called with a text such as "hops 2, epoch 1 of 4"; None = not called.
        values: The values of `what`; if empty, the default values `RANGES[what]`.

    Yields:
        One record (a dict of results, with the entry `kind` "growth") per value.

    Raises:
        OptionError: If `what` is "hops" or "coverage", but the model does not use the
            quantity; see `check_growing`.
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
    """Check that the quantity `what` can be varied for the model of a run.

    Raises:
        OptionError: If `what` is "hops" and the model uses no ego nets (k-hop
            subgraphs), or if `what` is "coverage" and the model does not use
            SubgraphDrop.
    """
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
    """Generate a data set of random 4-regular graphs that all have the same size.

    At most 32 different graphs are generated; larger data sets repeat these graphs.

    Args:
        num_nodes: Number of nodes per graph.
        num_graphs: Number of graphs.

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

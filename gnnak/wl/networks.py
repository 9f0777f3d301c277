"""Count the pairs of graphs that a network distinguishes, before and after training.

The count is compared with that of a Weisfeiler-Leman (WL) test that *bounds* the
network: the test distinguishes all pairs of graphs that the network can distinguish.
"""

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from time import perf_counter
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gnnak.errors import GraphError
from gnnak.graphs.named import Graph
from gnnak.models.factory import build_model, parse_name
from gnnak.models.options import FamilyOptions, ModelOptions
from gnnak.nn.features import Categorical
from gnnak.subgraphs import EgoNets, WholeGraphs
from gnnak.typing import Encoding, check_choice
from gnnak.wl.compare import partition
from gnnak.wl.embedding import pairs_different, push_apart
from gnnak.wl.families.registry import Groups, family, pairs_apart
from gnnak.wl.lab import LabResult
from gnnak.wl.options import known_options, read_options

_CENTROID: dict[str, object] = {"centroid": True}
_PLUS: dict[str, object] = {"d2c": True, "centroid": True, "context": True}

BOUNDS: dict[str, tuple[str, dict[str, object]]] = {
    "gin": ("1-wl", {}),
    "gin-ak": ("subgraph-1-wl*", _CENTROID),
    "gin-ak+": ("subgraph-1-wl*", _PLUS),
    "ppgn": ("2-fwl", {}),
    "ppgn-ak": ("subgraph-1-wl", {"hash": "2-fwl", **_CENTROID}),
    "ppgn-ak+": ("subgraph-1-wl", {"hash": "2-fwl", **_PLUS}),
}
"""Maps each network to a WL test, with options, that distinguishes all pairs of graphs
that the network can distinguish. Other subgraph GNNs are in `MEMBER_BOUNDS`."""

MEMBER_BOUNDS: dict[str, str] = {
    "khop": "pswl",
    "ego": "gswl",
    "id": "swl",
    "id-fast": "pswl",
    "nested": "swl",
    "ds": "swl",
    "dss": "gswl",
    "sun": "gswl",
    "sswl": "sswl",
    "sswl+": "sswl",
}
"""Maps the first part of the name of a subgraph GNN, such as "dss" of "dss-gin", to a
WL test that bounds the GNN with every base GNN that is bounded by 1-WL. Zhang et al.
(2023) prove these bounds, except those of k-hop GNN, Ego-GNN and ID-GNN-Fast, which we
argue for ourselves. A k-hop GNN of one layer is bounded by "swl", too. The bound of
Nested GNN is valid only without the encoding "resistance"."""

LAB_NETWORKS = ("gin", "gin-ak", "gin-ak+", "ppgn", "ppgn-ak")
"""The networks that `gnnak wl lab` runs, unless `--no-networks` is given."""

TRAINING_GRAPHS = 4
"""A network is trained on at most this many graphs of a family."""


@dataclass(frozen=True)
class Bound:
    """A Weisfeiler-Leman (WL) test that is at least as powerful as a network.

    The test distinguishes all pairs of graphs that the network can distinguish.
    """

    test: str
    """Name of the WL test, one of `TESTS`."""
    options: dict[str, object]
    """Maps names of fields of `Options` to values; other fields have their default."""


def has_bound(name: str) -> bool:
    """Return whether a WL test is known that bounds the network `name`."""
    form = parse_name(name)
    return name in BOUNDS or (form.member is not None and not form.has_node_pairs)


def bound_of(name: str, num_hops: int | None = 1, marked: bool = True) -> Bound:
    """Return a WL test that distinguishes all pairs of graphs that a network can.

    Args:
        name: Name of the network: one of `BOUNDS`, or a subgraph GNN of
            `MEMBER_BOUNDS` with any base GNN but PPGN.
        num_hops: Radius of the egonets, for networks with rooted subgraphs; None =
            whole graphs, only for subgraph GNNs of `MEMBER_BOUNDS`.
        marked: Whether the input of a subgraph GNN of `MEMBER_BOUNDS` tells the root
            from other nodes, by an encoding of (root, node).

    >>> bound_of("gin-ak", num_hops=2)
    Bound(test='subgraph-1-wl*', options={'centroid': True, 'num_hops': 2})
    >>> bound_of("sswl+-gin", num_hops=None)
    Bound(test='sswl', options={'num_hops': None})
    """
    _check_bound(name)
    member = parse_name(name).member
    if member is not None:
        if member in ("id-fast", "ego"):
            num_hops = None if member == "id-fast" else 1
        options: dict[str, object] = {"num_hops": num_hops}
        if not marked and member in ("nested", "ds", "dss", "sun", "sswl", "sswl+"):
            options["root_mark"] = False
        return Bound(MEMBER_BOUNDS[member], options)
    test, options = BOUNDS[name]
    if "num_hops" in known_options(test):
        options = {**options, "num_hops": num_hops}
    read_options(test, **options)
    return Bound(test, options)


def _check_bound(name: str) -> None:
    """Raise `OptionError` if no WL test is known that bounds the network `name`."""
    if not has_bound(name):
        members = (f"{member}-gin" for member in MEMBER_BOUNDS)
        check_choice("network", name, (*BOUNDS, *members))


class PlainEmbedder(nn.Module):
    """A network from `build_model` without its prediction head, to embed graphs.

    The weights are random, in float64, and the network is in evaluation mode. Subgraph
    GNNs other than GNN-AK pool states by sums, because a mean loses the number of
    nodes. Nested GNN encodes distances instead of resistances.

    Args:
        name: Name of the network, one with a bound (see `has_bound`).
        num_hops: Radius of the egonets, for networks on rooted subgraphs; None = whole
            graphs.
        num_layers: Number of layers.
        base_layers: Number of layers of the base GNN inside each GNN-AK layer.
        channels: Number of hidden channels, and of channels of the embeddings.
        encodings: The subgraph, centroid and context encodings that a GNN-AK layer
            fuses; None for the default of the network.
        seed: Seed of the weights.
    """

    def __init__(
        self,
        name: str,
        num_hops: int | None = 1,
        num_layers: int = 4,
        base_layers: int = 2,
        channels: int = 16,
        encodings: tuple[Encoding, ...] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        _check_bound(name)
        nested = parse_name(name).member == "nested"
        options = ModelOptions(
            num_layers=num_layers,
            base_layers=base_layers,
            channels=channels,
            subgraphs=WholeGraphs() if num_hops is None else EgoNets(num_hops),
            encodings=encodings,
            family=FamilyOptions(("distance",) if nested else None, reduce="sum"),
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = build_model(name, Categorical((1,)), None, channels, options)
        network.head = nn.Identity()
        self.network = network.double().eval()

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Embed a batch of graphs; return one embedding per graph, [g, channels]."""
        return self.network(x, edge_index, batch=batch)


class _Settings(NamedTuple):
    """Arguments of `run_networks` that are the same for all networks."""

    num_hops: int
    """Radius of the egonets."""
    steps: int
    """Number of training steps."""
    max_memory: float
    """Memory limit of a WL test in GiB."""


def run_networks(
    families: Iterable[str],
    names: Iterable[str] = LAB_NETWORKS,
    num_hops: int = 1,
    steps: int = 5,
    max_memory: float = 2.0,
) -> Iterator[LabResult]:
    """Run every network, and the WL test that bounds its power, on every family.

    A family is a named set of graphs that are hard to distinguish. For each network and
    family, three results are yielded: for the test that bounds the network (it
    distinguishes all graphs that the network can distinguish), for the network with
    random weights, and for the network after training with `push_apart` on at most
    `TRAINING_GRAPHS` graphs of the family.

    Args:
        families: Names of families, from `FAMILIES`.
        names: Names of networks, from `BOUNDS`.
        num_hops: Radius of the egonets.
        steps: Number of training steps.
        max_memory: Memory limit in GiB. A test that is estimated to need more is not
            run; the field `note` of its result says so.
    """
    names, settings = list(names), _Settings(num_hops, steps, max_memory)
    for name in families:
        groups = family(name)
        for network in names:
            yield from _results(name, groups, network, settings)


def _results(
    name: str, groups: Groups, network: str, settings: _Settings
) -> Iterator[LabResult]:
    """Yield three results of one network on one family of graphs.

    These are the results of the WL test that bounds the power of the network, of the
    network with random weights, and of the trained network.
    """
    embedder = PlainEmbedder(network, settings.num_hops)

    def bound() -> int:
        """Count the pairs that the test that bounds the network distinguishes."""
        test, options = astuple(bound_of(network, settings.num_hops))
        graphs = [graph for group in groups for graph in group]
        classes = partition(test, graphs, **options, max_memory=settings.max_memory)
        return pairs_apart(groups, classes)[1]

    def random() -> int:
        """Count the pairs that the network with random weights distinguishes."""
        return pairs_different(embedder, groups)

    def trained() -> int:
        """Train the network, and count the pairs that it distinguishes."""
        push_apart(embedder, _training_graphs(groups), settings.steps)
        return pairs_different(embedder, groups)

    total = pairs_apart(groups, [0] * sum(map(len, groups)))[0]
    for run in (bound, random, trained):
        contender = f"{network}, {run.__name__}"
        start = perf_counter()
        try:
            apart = run()
        except GraphError as error:
            yield LabResult(name, contender, total, None, None, 0.0, str(error))
            continue
        seconds = perf_counter() - start
        yield LabResult(name, contender, total, apart, None, seconds)


def _training_graphs(groups: Groups) -> list[Graph]:
    """Return at most `TRAINING_GRAPHS` graphs, evenly spaced in the largest group."""
    largest = max(groups, key=len)
    stride = -(-len(largest) // TRAINING_GRAPHS)
    return largest[::stride]

"""Count the pairs of graphs that WL tests and networks distinguish: `gnnak wl lab`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TypeVar

import torch
from torch import Tensor, nn

from gnnak.errors import GraphError
from gnnak.graphs.named import Graph
from gnnak.graphs.store import store_graphs
from gnnak.models.factory import build_model, parse_name
from gnnak.models.options import (
    FamilyOptions,
    ModelOptions,
    SubgraphKind,
    SubgraphOptions,
)
from gnnak.nn.features import Categorical
from gnnak.typing import Encoding
from gnnak.wl.bounds import PLUS, Contender, bound_of, check_bound, default_hops
from gnnak.wl.compare import partition, partition_with_rounds
from gnnak.wl.families import FAMILIES, Groups, family, pairs_apart
from gnnak.wl.refinement import REFINEMENTS

Result = TypeVar("Result")
LAB_FAMILIES = tuple(
    name for name in FAMILIES if name not in ("cfi-heawood", "cfi-dodecahedron")
)
"""Default families of `gnnak wl lab`; 2-FWL takes minutes on the two other families."""

LAB_CONTENDERS = (
    *(Contender(test) for test in REFINEMENTS),
    Contender("subgraph-1-wl*", {"num_hops": 1}),
    Contender("subgraph-1-wl*", {"num_hops": 2}),
    Contender("subgraph-1-wl*", {"num_hops": 1, **PLUS}),
    Contender("subgraph-1-wl*", {"num_hops": 2, **PLUS}),
    Contender("subgraph-1-wl", {"num_hops": 1, "hash": "3-wl"}),
    Contender("subgraph-1-wl", {"num_hops": 1}),
    Contender("subgraph-1-wl", {"num_hops": 2}),
    Contender("swl"),
    Contender("swl", {"readout": "sv"}),
    Contender("pswl"),
    Contender("pswl", {"readout": "sv"}),
    *(Contender(test) for test in ("gswl", "sswl", "2-lfwl", "2-slfwl")),
)


@dataclass(frozen=True)
class LabResult:
    """The result of one WL test, or one network, on one family of graphs."""

    family: str
    contender: str
    """A WL test with its options, or a network and a word: "bound" for the WL test that
    bounds the network, "random" or "trained" for the network with such weights."""
    pairs: int
    """Number of pairs of non-isomorphic graphs that were compared."""
    apart: int | None
    """Number of pairs that were distinguished; None if the test was not run."""
    rounds: int | None
    """Number of rounds until colours are stable; None for networks, or if not run."""
    seconds: float
    """Run time; 0 if the test was not run."""
    note: str = ""
    """Why the test was not run; empty if it was run."""
    test: str = ""
    """For the `bound` of a network: the WL test with its options; empty otherwise."""


def timed(run: Callable[[], Result]) -> tuple[Result | None, float, str]:
    """Return `run()` (None on `GraphError`), its time in seconds, and an error text."""
    start = perf_counter()
    try:
        found = run()
    except GraphError as error:
        return None, 0.0, str(error)
    return found, perf_counter() - start, ""


def run_lab(
    families: Iterable[str] = LAB_FAMILIES,
    contenders: Iterable[Contender] = LAB_CONTENDERS,
    max_memory: float = 2.0,
) -> Iterator[LabResult]:
    """Run every WL test on every family of graphs, and yield the results one by one."""
    contenders = list(contenders)
    for name in families:
        groups = family(name)
        graphs = [graph for group in groups for graph in group]
        total = pairs_apart(groups, [0] * len(graphs))[0]
        for contender in contenders:
            options = {"max_memory": max_memory, **contender.options}
            run = partial(partition_with_rounds, contender.test, graphs, **options)
            found, seconds, note = timed(run)
            classes, rounds = found or (None, None)
            apart = None if classes is None else pairs_apart(groups, classes)[1]
            yield LabResult(name, contender.label, total, apart, rounds, seconds, note)


TOLERANCE = 1e-9
"""Relative difference above which float64 embeddings count as different. Rounding
errors are about 1e-13, and real differences are far larger."""


Embedder = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Maps `x` (zeros, [n]), `edge_index` and `batch` to float64 embeddings, [g, c]."""


def embed(embedder: Embedder, graphs: Sequence[Graph]) -> Tensor:
    """Embed all graphs in one batch; return one row per graph, [g, c]."""
    batch = store_graphs(graphs).union()
    return embedder(torch.zeros_like(batch.batch), batch.edge_index, batch.batch)


def different(rows: Tensor) -> Tensor:
    """Return a mask, [g, g], of the pairs of embeddings, [g, c], that differ."""
    rows = rows.detach()
    size = rows.abs().amax(dim=1)
    larger = torch.maximum(size[:, None], size[None, :])
    return torch.cdist(rows, rows, p=torch.inf) > TOLERANCE * larger


def pairs_different(embedder: Embedder, groups: Sequence[Sequence[Graph]]) -> int:
    with torch.no_grad():
        rows = embed(embedder, [graph for group in groups for graph in group])
    parts = rows.split([len(group) for group in groups])
    return sum(int(different(part).triu(1).sum()) for part in parts)


def push_apart(network: nn.Module, graphs: Sequence[Graph], steps: int) -> None:
    r"""Train a network in place to give different graphs different embeddings $h$.

    Adam minimises the mean of $-\log(|h_G - h_H|^2 + 10^{-8})$ over pairs, for $h$
    scaled to mean absolute value 1.
    """
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        rows = embed(network, graphs)
        rows = rows / rows.detach().abs().mean().clamp(min=1e-12)
        gap = (rows[:, None] - rows[None]).square().mean(dim=2)
        (-torch.log(gap + 1e-8).mean()).backward()
        optimizer.step()


LAB_NETWORKS = ("gin", "gin-ak", "gin-ak+", "ppgn", "ppgn-ak")

TRAINING_GRAPHS = 4
"""A network is trained on at most this many graphs of a family."""
DEGREES = (0, 1, 1, 1, 1)
"""Histogram of in-degrees, by which the base GNN PNA scales messages."""


class PlainEmbedder(nn.Module):
    """A network without its head, with random float64 weights, in evaluation mode.

    The readout is a sum, since a mean loses the number of nodes. Nested GNN encodes
    only distances, no resistances.
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
        kind: SubgraphKind | None = None,
    ) -> None:
        super().__init__()
        check_bound(name)
        kind = kind or ("whole" if num_hops is None else "egonets")
        member = parse_name(name).member
        options = ModelOptions(
            num_layers=num_layers,
            base_layers=base_layers,
            channels=channels,
            subgraphs=SubgraphOptions(kind, 0 if num_hops is None else num_hops),
            encodings=encodings,
            family=FamilyOptions(
                ("distance",) if member == "nested" else None,
                reduce="sum" if member else None,
            ),
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = build_model(
                name, Categorical((1,)), None, channels, options, degrees=DEGREES
            )
        network.head = nn.Identity()
        self.network = network.double().eval()

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.network(x, edge_index, batch=batch)


def run_networks(
    families: Iterable[str],
    names: Iterable[str] = LAB_NETWORKS,
    num_hops: int | None = None,
    steps: int = 5,
    max_memory: float = 2.0,
) -> Iterator[LabResult]:
    """Run networks, and the WL tests that bound them, on families of graphs.

    Yields three results per family and network: of the WL test, of random weights, and
    after `steps` steps of `push_apart`. Wrong names raise `OptionError` at once.
    """
    hops = {n: default_hops(n) if num_hops is None else num_hops for n in names}
    for network, radius in hops.items():
        PlainEmbedder(network, radius)

    def results() -> Iterator[LabResult]:
        for name in families:
            groups = family(name)
            for network, radius in hops.items():
                yield from _results(name, groups, network, radius, steps, max_memory)

    return results()


def _results(
    name: str,
    groups: Groups,
    network: str,
    num_hops: int | None,
    steps: int,
    max_memory: float,
) -> Iterator[LabResult]:
    """Yield results on one family: of the WL test, random weights, trained weights."""
    embedder, chosen = PlainEmbedder(network, num_hops), bound_of(network, num_hops)

    def bound() -> int:
        graphs = [graph for group in groups for graph in group]
        options = {**chosen.options, "max_memory": max_memory}
        return pairs_apart(groups, partition(chosen.test, graphs, **options))[1]

    def random() -> int:
        return pairs_different(embedder, groups)

    def trained() -> int:
        largest = max(groups, key=len)
        chosen_graphs = largest[:: -(-len(largest) // TRAINING_GRAPHS)]
        push_apart(embedder, chosen_graphs, steps)
        return pairs_different(embedder, groups)

    total = pairs_apart(groups, [0] * sum(map(len, groups)))[0]
    for run in (bound, random, trained):
        apart, seconds, note = timed(run)
        contender, test = f"{network}, {run.__name__}", ""
        if run is bound:
            test = chosen.label
        elif chosen.options.get("num_hops") is not None:
            contender += f" (num_hops={chosen.options['num_hops']})"
        yield LabResult(name, contender, total, apart, None, seconds, note, test)

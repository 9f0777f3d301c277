"""`Extractor`: the protocol of subgraph extractors, open for extractors of your own."""

import re
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Generator, Tensor

from gnnak.errors import OptionError, SubgraphError, kind_of
from gnnak.graphs.adjacency import check_roots
from gnnak.subgraphs.advice import can_choose_roots
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.pagerank import PageRankNeighbors
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.walks import RandomWalks
from gnnak.subgraphs.whole import MaskedEgoNets, NodeDeletion, WholeGraphs


@runtime_checkable
class Extractor(Protocol):
    """A subgraph extractor: any callable that returns a rooted subgraph of every node.

    Models and loaders accept every object with these members. An extractor of your own
    can also set `reads_batch = True`. It is then called with a further argument
    `batch`, the index of the graph that each node is in, [n]. Like the extractors of
    this package, it can also have an argument `roots`: the nodes whose subgraphs are
    wanted, [s]. For all nodes, `roots` is None.

    The result of your own extractor is checked in each call: if it lacks a documented
    property of `RootedSubgraphs`, a `SubgraphError` names this property.

    >>> class Stars:
    ...     random = False
    ...     max_hops = 1
    ...     def __call__(self, edge_index, num_nodes, generator=None):
    ...         subgraphs = EgoNets(1)(edge_index, num_nodes)
    ...         at_root = subgraphs.hop[subgraphs.edge_index] == 0
    ...         kept = at_root.any(dim=0)
    ...         return replace(
    ...             subgraphs,
    ...             edge_index=subgraphs.edge_index[:, kept],
    ...             edge=subgraphs.edge[kept],
    ...         )
    >>> from dataclasses import replace
    >>> triangle = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    >>> extract(Stars(), triangle, 3)
    RootedSubgraphs(subgraphs=3, node_copies=9, edge_copies=12, device='cpu')
    """

    @property
    def random(self) -> bool:
        """Whether two calls on one graph can differ; if not, results can be cached."""

    @property
    def max_hops(self) -> int:
        """The largest possible distance of a node to the root of its subgraph."""

    def __call__(
        self, edge_index: Tensor, num_nodes: int, generator: Generator | None = None
    ) -> RootedSubgraphs:
        """Return one rooted subgraph per node; arguments as in `extract`."""


def check_extractor(name: str, value: object) -> None:
    if isinstance(value, type):
        kind = value.__name__
        told = f"{name} is the class {kind}"
        raise OptionError(f"{told}; give an object, such as {kind}(...).")
    if not isinstance(value, Extractor):
        raise OptionError(
            f"{name} is {value!r}; give an extractor, such as gnnak.EgoNets(3), or an "
            "object with random, max_hops and __call__ (see gnnak.subgraphs.Extractor)."
        )


BUILT_IN = (
    EgoNets,
    PageRankNeighbors,
    RandomWalks,
    WholeGraphs,
    NodeDeletion,
    MaskedEgoNets,
)
"""The extractors of this package; their results need no check."""


def extract(
    extractor: Extractor,
    edge_index: Tensor,
    num_nodes: int,
    generator: Generator | None = None,
    batch: Tensor | None = None,
    roots: Tensor | None = None,
) -> RootedSubgraphs:
    """Call an extractor; if it is not built in, check its result.

    Args:
        extractor: The extractor.
        edge_index: Directed edges, [2, e].
        num_nodes: Number of nodes, n.
        generator: Source of randomness. If None, PyTorch's default generator is used.
        batch: Index of the graph that each node is in, [n]; None if there is one graph.
            Only extractors with `reads_batch` get it.
        roots: The nodes whose subgraphs are extracted: an int64 tensor [s] in any
            order, each node at most once, or a bool mask [n]. If None, all nodes.

    Raises:
        OptionError: If `roots` is given, but the extractor has no such argument.
        SubgraphError: If the extractor does not return one valid subgraph per root.
    """
    options: dict[str, Any] = {}
    if getattr(extractor, "reads_batch", False):
        options["batch"] = batch
    if roots is not None:
        if not can_choose_roots(extractor):
            told = f"the extractor {type(extractor).__name__} extracts the subgraphs of"
            raise OptionError(f"{told} all nodes; give its __call__ an argument roots.")
        roots = check_roots(roots, num_nodes, edge_index.device)
        options["roots"] = roots
    found = extractor(edge_index, num_nodes, generator, **options)
    if type(extractor) not in BUILT_IN and not getattr(extractor, "is_checked", False):
        check_extracted(found, extractor, edge_index, num_nodes, roots)
    return found


def check_extracted(
    found: RootedSubgraphs,
    extractor: Extractor,
    edge_index: Tensor,
    num_nodes: int,
    roots: Tensor | None = None,
) -> None:
    """Raise `SubgraphError` unless `found` has one valid subgraph per node or root."""
    name = f"the extractor {type(extractor).__name__}"
    if not isinstance(found, RootedSubgraphs):
        kind = kind_of(found)
        raise SubgraphError(f"{name} returned {kind}; return gnnak.RootedSubgraphs.")
    if roots is not None and not torch.equal(found.root, roots):
        told = f"{name} returned subgraphs with other roots than it got"
        raise SubgraphError(f"{told}; keep their order.")
    count = num_nodes if roots is None else roots.numel()
    if found.num_subgraphs != count or found.num_nodes != num_nodes:
        raise SubgraphError(
            f"{name} returned {found.num_subgraphs} subgraphs with num_nodes="
            f"{found.num_nodes} for a graph of {num_nodes} nodes; return one subgraph "
            "per node, and set num_nodes and num_edges."
        )
    try:
        found.check(edge_index, num_nodes, induced=False)
    except SubgraphError as error:
        raise SubgraphError(f"{name} broke a rule: {error}") from error
    if found.max_hop > extractor.max_hops:
        raise SubgraphError(
            f"{name} returned a node at distance {found.max_hop} from its root, but "
            f"its max_hops is {extractor.max_hops}; set it to the largest distance."
        )


def are_equal(one: object, other: object) -> bool:
    """Return whether two objects have the same class and equal values or attributes."""
    if one is other or type(one) is not type(other):
        return one is other
    try:
        if type(one).__eq__ is object.__eq__:
            return vars(one) == vars(other)
        return bool(one == other)
    except (TypeError, ValueError, RuntimeError):  # tensors and arrays have no truth
        return False


ADDRESS = re.compile(" at 0x[0-9a-f]+")


def describe(value: object) -> str:
    """Return the `repr` of an object, or its class and attributes, without addresses.

    >>> class Stars: ...
    >>> describe(Stars())
    'Stars()'
    """
    text = repr(value)
    if type(value).__repr__ is object.__repr__:
        attributes = getattr(value, "__dict__", {})
        shown = ", ".join(f"{name}={found!r}" for name, found in attributes.items())
        text = f"{type(value).__name__}({shown})"
    return ADDRESS.sub("", text)

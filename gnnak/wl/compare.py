"""Run a Weisfeiler-Leman (WL) test to find out which graphs the test distinguishes."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs.adjacency import incoming
from gnnak.graphs.ragged import counts_of
from gnnak.subgraphs import EgoNets
from gnnak.subgraphs.reach import count_walks
from gnnak.wl.bounds import find_test
from gnnak.wl.inputs import Graph, GraphUnion, read_union
from gnnak.wl.options import Options
from gnnak.wl.pair_tests import PAIR_TESTS, pair_refinement
from gnnak.wl.refinement import REFINEMENTS, Coloring
from gnnak.wl.subgraph import subgraph_refinement

GIB = 1 << 30

_NUMBERS_PER_ITEM = 14
"""Largest number of int64 values that a round needs per node, edge or tuple."""

MOST_COUNTED = 1 << 22
"""Sizes of egonets are computed only if their upper bounds add up to at most this."""


def estimated_bytes(test: str, union: GraphUnion, options: Options) -> int:
    """Return an upper bound on the peak memory of a WL test, in bytes."""
    edges = torch.bincount(union.graph[union.edge_index[1]], minlength=union.num_graphs)
    if test in REFINEMENTS:
        return _bytes(test, union.sizes.double(), edges.double())
    size = union.sizes[union.graph].double()
    if options.num_hops is not None:
        size = _ball_sizes(union, options.num_hops)
    degree = torch.bincount(union.edge_index[1], minlength=union.num_nodes).double()
    top = float(degree.max()) if degree.numel() else 0.0
    if test in PAIR_TESTS:
        arcs = torch.minimum(size * top, edges[union.graph].double())
        collected = 2 if test in ("sswl", "2-slfwl") else 1
        return _bytes("1-wl", size, collected * arcs)
    inner = "1-wl" if options.hash == "exact" else options.hash
    return _bytes(inner, size, torch.minimum(size * top, size * size))


def _bytes(test: str, size: Tensor, edges: Tensor) -> int:
    """Estimate the bytes of a test, from nodes and edges of each graph or egonet."""
    items = size + edges
    if test.endswith("-fwl"):
        items = size ** (int(test[0]) + 1)
    elif test != "1-wl":
        items = size ** int(test[0]) * int(test[0])
    return int(items.sum()) * 8 * _NUMBERS_PER_ITEM


def _ball_sizes(union: GraphUnion, num_hops: int) -> Tensor:
    """Return the number of nodes of each node's egonet, or an upper bound."""
    neighbors = incoming(union.edge_index, union.num_nodes)
    walks = count_walks(neighbors, num_hops, float(union.num_nodes))
    bound = torch.minimum(walks, union.sizes[union.graph])
    if float(bound.sum()) > MOST_COUNTED:
        return bound
    balls = EgoNets(num_hops).without_edges(neighbors)
    return counts_of(balls.subgraph, union.num_nodes).double()


def run_test(test: str, union: GraphUnion, options: Options) -> Iterator[Coloring]:
    needed = estimated_bytes(test, union, options) / GIB
    if needed > options.max_memory:
        raise GraphError(
            f"{test} needs about {needed:.2g} GiB for {union.num_graphs} graphs of up "
            f"to {int(union.sizes.max())} nodes, more than max_memory = "
            f"{options.max_memory:g}; take smaller graphs, a weaker test or fewer hops."
        )
    if test in REFINEMENTS:
        return REFINEMENTS[test](union)
    if test in PAIR_TESTS:
        marked, readout = options.root_mark, options.readout
        return pair_refinement(union, test, options.num_hops, marked, readout)
    return subgraph_refinement(union, options)


def partition(test: str, graphs: Iterable[Graph], **options: object) -> list[int]:
    """Sort graphs into classes by a Weisfeiler-Leman (WL) test.

    Two graphs are in different classes iff the test distinguishes them.

    Args:
        test: A name in `TESTS`, or the name of a network, such as "gin-ak+", for the
            test that bounds the network. The network's egonets have 3 hops, as in
            `build_model`; if yours have another radius, set `num_hops`.
        graphs: networkx graphs, PyG data, (edge_index, num_nodes), graph6 strings, or
            paths of files of one graph each.
        **options: Fields of `Options` that the test takes.

    Returns:
        The class of every graph. Classes are numbered 0, 1, 2, ... in the order of
        their first graphs.

    >>> import networkx as nx
    >>> triangles = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    >>> graphs = [nx.cycle_graph(6), nx.path_graph(6), triangles]
    >>> partition("1-wl", graphs), partition("subgraph-1-wl*", graphs, num_hops=1)
    ([0, 1, 0], [0, 1, 2])
    """
    return partition_with_rounds(test, graphs, **options)[0]


def partition_with_rounds(
    test: str, graphs: Iterable[Graph], **options: object
) -> tuple[list[int], int]:
    """Return the result of `partition`, and the number of rounds run."""
    found = find_test(test, options)
    chosen = found.read()
    union = read_union(graphs, chosen.labels, chosen.undirected)
    rounds = -1
    for coloring in run_test(found.test, union, chosen):
        last, rounds = coloring, rounds + 1
    seen: dict[int, int] = {}
    fingerprints = last.fingerprints(union.num_graphs).tolist()
    return [seen.setdefault(mark, len(seen)) for mark in fingerprints], rounds


def distinguishes(test: str, first: Graph, second: Graph, **options: object) -> bool:
    """Return whether the Weisfeiler-Leman (WL) test `test` distinguishes two graphs.

    If True, the graphs are not isomorphic. If False, they may or may not be isomorphic.

    Args:
        test: A name in `TESTS`, or the name of a network, such as "gin-ak+", for the
            test that bounds the network. The network's egonets have 3 hops, as in
            `build_model`; if yours have another radius, set `num_hops`.
        first: A networkx graph, PyG data, (edge_index, num_nodes), graph6 string, or
            the path of a file with one graph.
        second: Another graph.
        **options: Fields of `Options` that the test takes.

    >>> from gnnak.wl.families import rook, shrikhande
    >>> distinguishes("3-wl", rook(), shrikhande())
    False
    >>> distinguishes("subgraph-1-wl", rook(), shrikhande(), hash="3-wl")
    True
    """
    return partition_with_rounds(test, [first, second], **options)[0] == [0, 1]

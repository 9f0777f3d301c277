"""Run a Weisfeiler-Leman (WL) test to find out which graphs the test distinguishes."""

from collections.abc import Iterable, Iterator

from gnnak.wl.inputs import Graph, read_union
from gnnak.wl.memory import check_memory
from gnnak.wl.options import Options, read_options
from gnnak.wl.pair_tests import PAIR_TESTS, pair_refinement
from gnnak.wl.refinement import Coloring
from gnnak.wl.subgraph import REFINEMENTS, Reading, subgraph_refinement
from gnnak.wl.union import GraphUnion


def run_test(test: str, union: GraphUnion, options: Options) -> Iterator[Coloring]:
    """Run a WL test and yield the colouring of every round, the stable one last.

    Args:
        test: One of `TESTS`.
        union: The graphs.
        options: The options of the test.

    Raises:
        GraphError: If the test is estimated to need more than `options.max_memory`.
    """
    check_memory(test, union, options)
    if test in REFINEMENTS:
        return REFINEMENTS[test](union)
    if test in PAIR_TESTS:
        marked, readout = options.root_mark, options.readout
        return pair_refinement(union, test, options.num_hops, marked, readout)
    assert options.num_hops is not None
    reading = Reading(options.d2c, options.root_mark, options.centroid, options.context)
    return subgraph_refinement(union, options.hash, options.num_hops, reading)


def partition(test: str, graphs: Iterable[Graph], **options: object) -> list[int]:
    """Sort graphs into classes by a Weisfeiler-Leman (WL) test.

    Two graphs are in different classes iff the test distinguishes them.

    Args:
        test: One of `TESTS`.
        graphs: networkx graphs, PyG data, (edge_index, num_nodes) or graph6 strings.
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
    """Return the result of `partition`, and the number of rounds of the test.

    After these rounds the colouring is stable: one more round would split no colour.
    """
    chosen = read_options(test, **options)
    union = read_union(graphs, chosen.labels)
    rounds = -1
    for coloring in run_test(test, union, chosen):
        last, rounds = coloring, rounds + 1
    seen: dict[int, int] = {}
    fingerprints = last.fingerprints(union.num_graphs).tolist()
    return [seen.setdefault(mark, len(seen)) for mark in fingerprints], rounds


def distinguishes(test: str, first: Graph, second: Graph, **options: object) -> bool:
    """Return whether the Weisfeiler-Leman (WL) test `test` distinguishes two graphs.

    If True, the graphs are not isomorphic. If False, they may or may not be isomorphic.

    Args:
        test: One of `TESTS`.
        first: A networkx graph, PyG data, (edge_index, num_nodes) or graph6 string.
        second: Another graph.
        **options: Fields of `Options` that the test takes.

    >>> from gnnak.wl.families import rook, shrikhande
    >>> distinguishes("3-wl", rook(), shrikhande())
    False
    >>> distinguishes("subgraph-1-wl", rook(), shrikhande(), hash="3-wl")
    True
    """
    return partition(test, [first, second], **options) == [0, 1]

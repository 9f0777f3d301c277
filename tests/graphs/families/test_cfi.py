import networkx as nx
import pytest

from gnnak.errors import GraphError
from gnnak.graphs.families import cfi_pair
from gnnak.wl import distinguishes
from gnnak.wl.families import classes


def test_cfi_pairs_are_cubic_unlike_and_alike_to_2_fwl():
    first, second = cfi_pair(nx.complete_graph(4))
    assert classes([first, second]) != [0, 0]
    assert not distinguishes("2-fwl", first, second)
    for edge_index, num_nodes in (first, second):
        assert edge_index[0].bincount().tolist() == [3] * num_nodes


@pytest.mark.parametrize(
    "base",
    [
        nx.MultiGraph([(0, 1), (0, 1), (0, 1)]),
        nx.DiGraph([(0, 1), (1, 2), (2, 0)]),
        nx.Graph([(0, 0), (0, 1), (1, 1)]),
    ],
    ids=["multigraph", "directed", "self loops"],
)
def test_cfi_needs_a_simple_undirected_base(base):
    with pytest.raises(GraphError, match="must be simple and undirected, but"):
        cfi_pair(base)


def test_cfi_takes_nodes_of_mixed_types():
    base = nx.relabel_nodes(nx.complete_graph(4), {0: "a", 1: (1,)})
    assert not distinguishes("1-wl", *cfi_pair(base))


def test_cfi_needs_a_connected_cubic_base():
    with pytest.raises(GraphError, match="node 0 does not have degree 3"):
        cfi_pair(nx.path_graph(3))
    with pytest.raises(GraphError, match="disconnected"):
        cfi_pair(nx.disjoint_union(nx.complete_graph(4), nx.complete_graph(4)))

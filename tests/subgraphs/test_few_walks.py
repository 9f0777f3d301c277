"""The list of all walks, and the search that begins with it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak import EgoNets
from gnnak.graphs.adjacency import incoming
from gnnak.subgraphs import reach
from gnnak.subgraphs.reach import list_walks
from tests.operation_counts import OperationCount
from tests.strategies import graphs

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def test_walks_of_a_path_equal_hand_written_ones():
    walks, length = list_walks(torch.tensor([2, 0]), incoming(PATH, 3), 2, most=99)
    assert length == 2
    # (root number, first node, length): 2, 1-2, 0-1-2, 2-1-2; 0, 1-0, 0-1-0, 2-1-0
    wanted = [(0, 2, 0), (0, 1, 1), (0, 0, 2), (0, 2, 2)]
    wanted += [(1, 0, 0), (1, 1, 1), (1, 0, 2), (1, 2, 2)]
    assert sorted(walks.tolist()) == sorted((i * 3 + v) * 3 + k for i, v, k in wanted)


@pytest.mark.parametrize(("most", "wanted"), [(6, 0), (7, 1), (12, 1), (13, 2)])
def test_list_of_walks_ends_at_the_last_length_with_few_walks(most, wanted):
    # 3 walks of length 0, 4 of length 1, 6 of length 2.
    root, neighbors = torch.arange(3), incoming(PATH, 3)
    for all_roots in (False, True):
        walks, length = list_walks(root, neighbors, 2, most, all_roots)
        assert (walks.numel(), length) == ([3, 7, 13][wanted], wanted)


def test_list_of_walks_ends_where_no_edge_begins():
    neighbors = incoming(torch.tensor([[0], [1]]), 2)
    walks, length = list_walks(torch.arange(2), neighbors, 10**6, most=99)
    assert (walks.numel(), length) == (3, 10**6)


@pytest.mark.parametrize("few", [0, 5, 30, 200])
@settings(max_examples=100, deadline=None)
@given(graph=graphs(), num_hops=st.integers(0, 5))
def test_reach_does_not_depend_on_the_number_of_listed_walks(few, graph, num_hops):
    edge_index, num_nodes = graph
    neighbors, root = incoming(edge_index, num_nodes), torch.arange(num_nodes)
    pairs = reach.reach(root, neighbors, num_hops)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reach, "ON_CPU", few)
        for all_roots in (False, True):
            found = reach.reach(root, neighbors, num_hops, all_roots=all_roots)
            for one, other in zip(pairs, found, strict=True):
                assert torch.equal(one, other)


def test_egonets_of_a_small_graph_take_few_operations():
    with OperationCount() as count:
        EgoNets(3)(PATH, 3)
    # A search that drops duplicates after every step takes about twice as many, and
    # three times as many that synchronise.
    assert count.total <= 75
    assert count.synchronising <= 5

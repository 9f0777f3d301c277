import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak import EgoNets
from gnnak.errors import GraphError, SizeError
from gnnak.graphs.adjacency import incoming
from gnnak.subgraphs import reach
from gnnak.subgraphs.copy_limit import CopyLimit
from gnnak.subgraphs.reach import list_walks
from tests.operation_counts import OperationCount
from tests.strategies import graphs


@pytest.mark.parametrize("chunk", [1, 2, 7])
@settings(max_examples=100, deadline=None)
@given(graph=graphs(), num_hops=st.integers(0, 4))
def test_reach_in_parts_equals_reach_at_once(chunk, graph, num_hops):
    edge_index, num_nodes = graph
    neighbors, root = incoming(edge_index, num_nodes), torch.arange(num_nodes).flip(0)
    at_once = reach.reach(root, neighbors, num_hops)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reach, "CHUNK", chunk)
        in_parts = reach.reach(root, neighbors, num_hops)
    for first, second in zip(at_once, in_parts, strict=True):
        assert torch.equal(first, second)


def test_reach_in_parts_bounds_the_edges_of_a_step(monkeypatch):
    steps = []
    ragged_ranges = reach.ragged_ranges

    def watch(start, count, total):
        steps.append(total)
        return ragged_ranges(start, count, total)

    monkeypatch.setattr(reach, "ragged_ranges", watch)
    monkeypatch.setattr(reach, "CHUNK", 300)
    complete = (1 - torch.eye(30)).nonzero().t().contiguous()
    reach.reach(torch.arange(30), incoming(complete, 30), 3)
    # Without parts, the second step would follow 30 * 29 * 29 edges.
    assert max(steps) <= 300 + 29 * 29


def test_reach_in_parts_raises_when_keys_would_overflow(monkeypatch):
    monkeypatch.setattr(reach, "CHUNK", 1)
    monkeypatch.setattr(reach, "INT64_MAX", 9 * 2)
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    with pytest.raises(GraphError, match="too large for 5 hops; use at most 1"):
        reach.reach(torch.arange(3), incoming(path, 3), 5)


@settings(max_examples=100, deadline=None)
@given(graph=graphs(), num_hops=st.integers(0, 4))
def test_number_of_walks_bounds_the_number_of_nodes(graph, num_hops):
    edge_index, num_nodes = graph
    neighbors, root = incoming(edge_index, num_nodes), torch.arange(num_nodes)
    found = reach.reach(root, neighbors, num_hops)[0].numel()
    bound = reach.count_walks(neighbors, num_hops, num_nodes).sum()
    assert found <= bound <= num_nodes**2


def test_number_of_walks_is_exact_for_one_hop_of_a_simple_graph():
    cycle = torch.stack([torch.arange(9), torch.arange(1, 10) % 9])
    neighbors = incoming(torch.cat([cycle, cycle.flip(0)], dim=1), 9)
    assert reach.count_walks(neighbors, 1, 9).tolist() == [3] * 9


def test_reach_stops_as_soon_as_the_limit_is_exceeded(monkeypatch):
    path = torch.stack([torch.arange(199), torch.arange(1, 200)])
    neighbors = incoming(torch.cat([path, path.flip(0)], dim=1), 200)
    steps, step = [], reach._Search.step

    def counted(self, *arguments):
        steps.append(1)
        return step(self, *arguments)

    monkeypatch.setattr(reach._Search, "step", counted)
    limit = CopyLimit(1000, torch.device("cpu"))
    with pytest.raises(SizeError, match="node copies"):
        reach.reach(torch.arange(200), neighbors, 60, limit)
    assert len(steps) < 5


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

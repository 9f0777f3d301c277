import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak import PageRankNeighbors
from gnnak.errors import OptionError, SizeError
from gnnak.graphs.adjacency import incoming
from gnnak.subgraphs import copy_limit, pagerank, pagerank_neighbors
from gnnak.subgraphs.copy_limit import BYTES_PER_COPY
from gnnak.subgraphs.pagerank import BITS, ONE
from tests.strategies import graphs
from tests.subgraphs.selected import rows

LEAF = torch.arange(1, 8)
STAR = torch.cat([torch.stack([LEAF, 0 * LEAF]), torch.stack([0 * LEAF, LEAF])], dim=1)


def exact(edge_index, num_nodes, alpha):
    """The PageRank of each root (row), from a dense system of linear equations."""
    steps = torch.zeros(num_nodes, num_nodes, dtype=torch.double)
    for source, target in edge_index.t().tolist():
        steps[target, source] += 1
    for node in range(num_nodes):
        if not steps[node].any():
            steps[node, node] = 1
    steps /= steps.sum(dim=1, keepdim=True)
    eye = torch.eye(num_nodes, dtype=torch.double)
    return alpha * torch.linalg.inv(eye - (1 - alpha) * steps)


def approximate(edge_index, num_nodes, alpha, tolerance):
    neighbors = incoming(edge_index, num_nodes)
    pair, value = pagerank.pagerank(
        torch.arange(num_nodes), neighbors, alpha, tolerance
    )
    assert (pair.diff() > 0).all()
    assert (value > 0).all()
    dense = torch.zeros(num_nodes, num_nodes, dtype=torch.double)
    dense[pair >> BITS, pair & ((1 << BITS) - 1)] = value.double() / ONE
    return dense


def check_pagerank(edge_index, num_nodes, alpha, tolerance):
    wanted = exact(edge_index, num_nodes, alpha)
    found = approximate(edge_index, num_nodes, alpha, tolerance)
    degree = torch.bincount(edge_index[1], minlength=num_nodes).clamp(min=1).double()
    # The bound of root v and node u: tolerance * sum over w of d_w pi_w(u).
    bound = tolerance * (degree @ wanted)[None, :]
    low = wanted - found
    assert (low > -1e-9).all()
    assert (low <= bound + 1e-9).all()
    both = {tuple(edge) for edge in edge_index.t().tolist()}
    if all(edge[::-1] in both for edge in both) and len(both) == edge_index.size(1):
        torch.testing.assert_close(degree @ wanted, degree)


@settings(max_examples=100, deadline=None)
@given(
    graph=graphs(),
    alpha=st.sampled_from([0.05, 0.15, 0.5, 0.9]),
    tolerance=st.sampled_from([0.3, 0.01, 1e-4, 1e-7]),
)
def test_pagerank_is_within_its_tolerance_of_a_dense_solution(graph, alpha, tolerance):
    check_pagerank(*graph, alpha, tolerance)


def test_pagerank_of_corner_cases_is_within_its_tolerance(corner_case):
    for tolerance in (0.01, 1e-6):
        graph = corner_case.edge_index, corner_case.num_nodes
        check_pagerank(*graph, 0.15, tolerance)
        pagerank_neighbors(*graph, 3, tolerance=tolerance).check(*graph)


@settings(max_examples=100, deadline=None)
@given(graph=graphs(), size=st.integers(1, 9), tolerance=st.sampled_from([0.01, 1e-8]))
def test_pagerank_neighbors_are_the_nodes_of_largest_value(graph, size, tolerance):
    _, num_nodes = graph
    found = pagerank_neighbors(*graph, size, 0.2, tolerance).check(*graph)
    assert found.in_order
    value = approximate(*graph, 0.2, tolerance)
    true = exact(*graph, 0.2)
    for root, (nodes, *_) in rows(found).items():
        row = value[root].tolist()
        best = sorted(range(num_nodes), key=lambda v: (v != root, -row[v], v))
        assert nodes == sorted(v for v in best[:size] if row[v] > 0)
        if tolerance == 1e-8:
            others = [v for v in range(num_nodes) if v not in nodes]
            least = true[root, [v for v in nodes if v != root]]
            if others and least.numel():
                assert least.min() >= true[root, others].max() - 1e-6


def test_ties_go_to_the_lowest_nodes_and_the_root_is_always_there():
    found = rows(pagerank_neighbors(STAR, 8, size=4))
    assert found[0][0] == [0, 1, 2, 3]
    assert found[5][0] == [0, 1, 2, 5]
    assert found[2][0] == [0, 1, 2, 3]
    # Walks from node 1 to 5 end at 0 more often than at the root.
    towards = torch.stack([0 * LEAF[:5], LEAF[:5]])
    assert exact(towards, 6, 0.15)[1].argmax() == 0
    assert rows(pagerank_neighbors(towards, 6, size=1))[1][0] == [1]


def test_distances_are_inside_the_subgraph():
    """Nodes 1 and 2 lead to the root; node 3 only through node 2, which is left out."""
    many = [(3, 2)] * 5 + [(2, 0), (1, 0), (1, 0), (3, 3)]
    edge_index = torch.tensor(many).t()
    found = pagerank_neighbors(edge_index, 4, 3, roots=torch.tensor([0]), alpha=0.3)
    assert found.node.tolist() == [0, 1, 3]
    assert found.hop.tolist() == [0, 1, -1]
    path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    found = pagerank_neighbors(path, 4, 4, max_hops=1, roots=torch.tensor([0]))
    assert found.hop.tolist() == [0, 1, -1, -1]


@settings(max_examples=50, deadline=None)
@given(graph=graphs(), size=st.integers(1, 5), chunk=st.integers(1, 30), data=st.data())
def test_pagerank_neighbors_depend_on_nothing_but_their_graph(graph, size, chunk, data):
    edge_index, num_nodes = graph
    wanted = rows(pagerank_neighbors(*graph, size))
    roots = data.draw(st.permutations(range(num_nodes)))[: data.draw(st.integers(0, 9))]
    some = torch.tensor(roots, dtype=torch.long)
    found = pagerank_neighbors(*graph, size, roots=some).check(*graph)
    assert found.root.tolist() == roots
    assert rows(found) == {root: wanted[root] for root in roots}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pagerank, "CHUNK", chunk)
        assert rows(pagerank_neighbors(*graph, size)) == wanted
    batch = torch.cat([STAR, edge_index + 8], dim=1), 8 + num_nodes
    later = torch.arange(8, 8 + num_nodes)
    assert rows(pagerank_neighbors(*batch, size, roots=later)) == {
        root + 8: ([v + 8 for v in node], hop, ends, [e + 14 for e in edge])
        for root, (node, hop, ends, edge) in wanted.items()
    }


def test_a_smaller_tolerance_finds_more_nodes():
    path = torch.arange(60).unfold(0, 2, 1).t()
    path = torch.cat([path, path.flip(0)], dim=1)
    sizes = [
        int(pagerank_neighbors(path, 60, 60, tolerance=t).sizes[0])
        for t in (0.1, 1e-3, 1e-8)
    ]
    assert sizes[0] < sizes[1] < sizes[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size is 0; give a whole number of at least 1"),
        ({"alpha": 0.0}, "alpha is 0.0; give a number with 0.01 <= alpha < 1"),
        ({"alpha": 1}, "alpha is 1; give a number with 0.01 <= alpha < 1"),
        ({"tolerance": 0}, "tolerance is 0; give a number with 1e-08 <= tolerance < 1"),
        ({"max_hops": -1}, "max_hops is -1"),
    ],
)
def test_wrong_options_of_pagerank_are_named(options, message):
    given = {"size": 3} | options
    with pytest.raises(OptionError, match=message):
        PageRankNeighbors(**given)
    with pytest.raises(OptionError, match=message):
        pagerank_neighbors(STAR, 8, **given)


def test_pagerank_neighbors_are_refused_from_an_estimate(monkeypatch):
    with pytest.raises(SizeError, match=r"lower size or the number of roots"):
        PageRankNeighbors(3, copy_limit=20)(STAR, 8)
    ring = torch.stack([torch.arange(40_000), torch.arange(1, 40_001) % 40_000])
    monkeypatch.setattr(copy_limit, "UNCHECKED", 0)
    monkeypatch.setattr(copy_limit, "free_bytes", lambda _: 10_000 * BYTES_PER_COPY)
    with pytest.raises(SizeError, match="about 120,000 node copies"):
        PageRankNeighbors(3)(ring, 40_000)
